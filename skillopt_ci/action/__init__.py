"""The GitHub Action: from an event of the runner to a command, its outputs and what is published.

`main` is where to start reading; `event.decide` says what an event asks for, `perform` does it.
"""
