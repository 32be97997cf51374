declare -A seen; sum=0
for ((i = 0; i < 40000; i++)); do ((sum = (sum * 31 + i) % 1000003)); seen[$((sum % 97))]=$i; done
echo $sum ${#seen[@]}
fib() { if (($1 < 2)); then echo $1; else echo $(($(fib $(($1 - 1))) + $(fib $(($1 - 2))))); fi; }
fib 11
trap 'echo trapped' USR1; for i in 1 2 3; do kill -USR1 $$; done
text=; for i in {1..3000}; do text+="word$i "; done; echo ${#text} ${text//[0-9]/} | sha256sum
words=($text); for ((i = 0; i < 2500; i++)); do [[ ${words[i]} =~ ^word([0-9]+)$ ]] && ((total += BASH_REMATCH[1])); done; echo $total
for i in {1..40}; do (exit $((i % 7))); echo -n $?; done; echo
seq 1 2000 | while read -r n; do echo $((n * n)); done | sort -n | tail -1
coproc cat; echo hello >&"${COPROC[1]}"; read -r answer <&"${COPROC[0]}"; echo $answer
printf '%s\n' {a..z}{a..z} | sort -r | head -3; sleep 0.01 & wait $!; echo $?
