# The packages of requirements.lock that a list names, with their hashes:
#   awk -f requirements/locked.awk requirements/dev.txt requirements.lock
NR == FNR { named[$1]; next }
/^[^ ]/ { shown = $1 in named }
shown
