"""The pictures of the documentation: the loop, drawn, and the README's screenshots. They lie in docs/pictures/."""
