"""Model versions and aliases: registering, approving, retiring, referring to them."""
