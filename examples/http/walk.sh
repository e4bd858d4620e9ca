#!/bin/sh
# A walk through locks and resources over HTTP, with curl, as a process in any language would use them. Three servers run on
# loopback; one is killed in the middle and started again, another one leaves and comes back, and nothing is lost.
#
#	sh examples/http/walk.sh
set -eu

dir=$(mktemp -d)
trap 'kill $(cat "$dir"/*.pid) 2>/dev/null || true; rm -rf "$dir"' EXIT
go build -o "$dir/lockmesh" ./cmd/lockmesh

seeds=127.0.0.1:7311,127.0.0.1:7312,127.0.0.1:7313
start() { # start N: starts server N
	"$dir/lockmesh" serve -name "s$1" -seeds $seeds -bind 127.0.0.1:731"$1" -listen 127.0.0.1:738"$1" -lease 5s >"$dir/$1.log" 2>&1 &
	echo $! >"$dir/$1.pid"
}
ready() { # ready N: waits until server N is ready
	for _ in $(seq 300); do
		curl -fsS -o /dev/null "http://127.0.0.1:738$1/readyz" 2>/dev/null && return
		sleep 0.1
	done
	echo "server $1 does not get ready" >&2
	cat "$dir/$1.log" >&2
	exit 1
}

server=1
# ask METHOD PATH [BODY] makes a request to the server in use, and prints its answer.
ask() {
	if [ $# -gt 2 ]; then
		curl -sS -X "$1" "http://127.0.0.1:738$server$2" -H 'Content-Type: application/json' -d "$3"
	else
		curl -sS -X "$1" "http://127.0.0.1:738$server$2"
	fi
}
# expect WORDS METHOD PATH [BODY] makes a request, and fails unless the answer contains each of the words. The answer is left in $answer.
expect() {
	want=$1
	shift
	answer=$(ask "$@")
	for _ in $(seq 20); do # a machine may be slow; a request that is repeated is not made twice
		case $want$answer in
		*waiting*waiting*) break ;;
		*waiting*) [ "${want#*waiting}" = "$want" ] || break ;;
		*) break ;;
		esac
		sleep 0.1
		answer=$(ask "$@")
	done
	echo "server $server: $* -> $answer"
	for part in $want; do
		case $answer in
		*"$part"*) ;;
		*)
			echo "FAILED: want $want" >&2
			exit 1
			;;
		esac
	done
}
token() { printf '%s' "$answer" | sed 's/.*"token":\([0-9]*\).*/\1/'; }
request() { printf '{"node_id":"%s","type":"%s","resource_id":"%s"%s}' "$1" "$2" "$3" "${4:-}"; }

for n in 1 2 3; do start $n; done
for n in 1 2 3; do ready $n; done

echo "== a lock, the place behind it, and what is sent twice"
expect '"running" "acquired":true' POST /lock "$(request ann lock door)"
first=$(token)
expect "\"token\":$first" POST /lock "$(request ann lock door)"
expect '"waiting"' POST /lock "$(request bob lock door)"
expect '"not_holder"' POST /unlock "$(request bob lock door)"
expect '"not_holder"' POST /unlock "$(request cid lock door)"
expect '"not_locked"' POST /unlock "$(request cid lock window)"

echo "== an image: one pulls it, the others skip"
expect '"running"' POST /lock "$(request ann pull app:7)"
pull=$(token)
expect '"waiting"' POST /lock "$(request bob pull app:7)"

echo "== the server is killed; the guests go on with the next one"
kill -9 "$(cat "$dir/1.pid")"
server=2
expect "\"running\" \"token\":$first" GET "/lock?node_id=ann&type=lock&resource_id=door"
expect "\"running\" \"token\":$pull" GET "/lock?node_id=ann&type=pull&resource_id=app:7"
expect '"waiting"' GET "/lock?node_id=bob&type=lock&resource_id=door"
start 1
expect '"done"' POST /unlock "$(request ann pull app:7)"
expect '"done"' POST /unlock "$(request ann pull app:7)"
expect '"done" "skip":true' GET "/lock?node_id=bob&type=pull&resource_id=app:7&wait_ms=1000"
expect '"user":"ann" "user":"bob"' GET "/refs?resource_id=app:7"
expect '"in_use" "user":"ann"' POST /lock "$(request cid delete app:7)"
expect '"lease_ms"' POST /renew '{"node_id":"ann"}'
ready 1

echo "== another server leaves in an orderly way"
kill -TERM "$(cat "$dir/2.pid")"
server=3
expect '"done"' POST /unlock "$(request ann lock door ",\"token\":$first")"
expect '"running"' GET "/lock?node_id=bob&type=lock&resource_id=door&wait_ms=1000"
wait "$(cat "$dir/2.pid")" || true # its ports are free then
start 2
expect '"done"' POST /unlock "$(request bob lock door)"
ready 2

echo "== the uses end, and the image may go"
server=1
expect '"done"' POST /release '{"node_id":"ann","resource_id":"app:7"}'
expect '"done"' POST /release '{"node_id":"bob","resource_id":"app:7"}'
expect '"users":[]' GET "/refs?resource_id=app:7"
expect '"running"' POST /lock "$(request cid delete app:7)"
expect '"done"' POST /unlock "$(request cid delete app:7)"
expect '"skip":true' POST /lock "$(request dan delete app:7)"

echo "== readers, permits, the short form, and leaving a queue"
expect '"running"' PUT "/locks/page?node_id=ann&type=rlock"
expect '"running"' PUT "/locks/page?node_id=bob&type=rlock"
expect '"waiting"' PUT "/locks/page?node_id=cid"
expect '"none"' DELETE "/lock?node_id=cid&type=lock&resource_id=page"
expect '"done"' DELETE "/locks/page?node_id=ann&type=rlock"
expect '"done"' DELETE "/locks/page?node_id=bob&type=rlock"
expect '"running"' PUT "/locks/seats?node_id=ann&type=semaphore&n=2&capacity=3"
expect '"waiting"' PUT "/locks/seats?node_id=bob&type=semaphore&n=2&capacity=3"
expect '"invalid"' POST /lock '{"node_id":"ann"}'

echo "== a guest that comes back to the server it has left is told what is true now"
server=2
expect '"running"' PUT "/locks/gate?node_id=ann"
server=3
expect '"done"' DELETE "/locks/gate?node_id=ann"
expect '"running"' PUT "/locks/gate?node_id=bob"
server=2
expect '"done"' GET "/locks/gate?node_id=ann"
expect '"waiting" "holder":"bob"' PUT "/locks/gate?node_id=ann"

echo "walked, and nothing was lost"
