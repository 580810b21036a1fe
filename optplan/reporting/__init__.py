"""What people look at: tables for the terminal, figures, and the HTML report.

Everything here reads instances and results and decides nothing. rich, plotly and jinja2 load on use.
"""
