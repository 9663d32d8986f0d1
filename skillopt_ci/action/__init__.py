"""The GitHub Action: turns an event into a command, its outputs and published reports.

Start reading at `main`; `event.decide` decides what an event asks for, `perform` does it.
"""
