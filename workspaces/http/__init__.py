"""What all requests and answers have in common: authentication, scopes, errors, limits, repeats, lists, OpenAPI."""
