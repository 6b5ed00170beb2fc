"""Approvals: what waits for the decision of another key. Other packages create them; each kind has a handler.

    pending ---> approved ---> executed | failed     a call: it is made after the decision is stored
       |-------> executed                            changes of a provider: one transaction
       |-------> rejected
       '-------> expired                             nobody decided in time, or a later request replaced it

A state is left by one UPDATE that names it, so of several decisions one takes effect. A call whose process
ends after the decision was stored is never made again: it becomes `failed` after an hour.
"""
