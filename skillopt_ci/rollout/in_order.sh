# Runs a command with safe Python imports, set up by the folder that is the first argument.
# Bytecode that the agent left is never read.
export PYTHONPATH="$1${PYTHONPATH:+:$PYTHONPATH}" PYTHONPYCACHEPREFIX="$1/compiled"
shift
exec "$@"
