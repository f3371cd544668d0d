from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("workspaces", "0006_content_types_of_answers")]

    operations = [migrations.DeleteModel(name="FailedLogIn")]
