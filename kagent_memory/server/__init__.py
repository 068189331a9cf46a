"""The only room that imports fastapi and jinja2: kagent's HTTP contract, our own API, and the
page.
"""
