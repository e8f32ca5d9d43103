
# After `--`, the command of `shedlock run` and its arguments.
_shedlock_or_command() {
    local at
    for ((at = 1; at < COMP_CWORD; at++)); do
        if [[ "${COMP_WORDS[at]}" == "--" ]]; then
            COMPREPLY=()
            if declare -F _command_offset >/dev/null; then
                _command_offset $((at + 1))
            elif ((COMP_CWORD == at + 1)); then
                mapfile -t COMPREPLY < <(compgen -c -- "${COMP_WORDS[COMP_CWORD]}")
            fi
            return
        fi
    done
    _shedlock "$@"
}

complete -F _shedlock_or_command -o bashdefault -o default shedlock
