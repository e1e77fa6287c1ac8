"""Sign-in at a provider of OpenID Connect: the authorization code flow with PKCE, for the console."""
