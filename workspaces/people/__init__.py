"""People of a workspace: invitations, roles, deactivation and password links; and each person's own pages."""
