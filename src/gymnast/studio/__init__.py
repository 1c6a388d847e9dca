"""Studio: a local web app over the verbs. `serve.py` is its door, `app.py` its addresses, `static/` its pages."""
