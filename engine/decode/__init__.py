"""The generation loop and sampling."""
