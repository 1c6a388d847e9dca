"""Studio: a local web app over the verbs. `serve.py` is its door, `app.py` its addresses, `static/` its pages."""

TOKEN = "GYMNAST_STUDIO_TOKEN"  # an environment variable: the secret in the address of the page
