"""The GitHub Action. Start at `main`; `event.decide` decides what to do, `perform` does it."""
