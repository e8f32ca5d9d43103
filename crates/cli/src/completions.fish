
# After `--`, the command of `shedlock run` and its arguments.
function __fish_shedlock_command
    set -l words (commandline -opc)
    set -l at (contains -i -- -- $words); or return
    complete -C (string join ' ' -- (string escape -- $words[(math $at + 1)..-1]) (commandline -ct))
end

complete -c shedlock -n 'contains -- -- (commandline -opc)' -fa '(__fish_shedlock_command)'
