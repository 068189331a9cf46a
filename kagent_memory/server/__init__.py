"""The server: kagent's HTTP contract, our own API and the page. Only this room imports fastapi and
jinja2.
"""
