#!/usr/bin/env bash
# A single-node Apache Kafka for development, without Docker. Everything it writes is in .kafka/ at the top of the repository.
#
#   kafka.sh up [port]   fetch the jars once, start the broker, make the topics, print the address
#   kafka.sh down        stop the broker; its data stays
#   kafka.sh status      print the address, or exit 1
#
# With no port it takes the one of the last time, else the first free one from 9092 on.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
dir=$root/.kafka
libs=$dir/libs
config=$dir/server.properties
log=$dir/kafka.log
pid_file=$dir/pid
brokers_file=$dir/brokers

# Every topic of the contract, as name:partitions.
topics=(
  order-service.order.confirmed:6
  order-service.order.confirmed.billing-order-confirmed.retry:6
  billing.charge-results:6
  billing.order-confirmed.dlq:6
)

fail() {
  echo "kafka.sh: $*" >&2
  exit 1
}

# java_run keeps the JVM's own files inside .kafka/ as well.
java_run() {
  java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData -Djava.io.tmpdir="$dir/tmp" "$@"
}

tool() {
  java_run -Xmx256m -Dlog4j2.level=ERROR -Dlog4j2.configurationFile="$dir/log4j2-tools.xml" -cp "$libs/*" "$@"
}

resolve_jars() {
  if cmp -s "$here/pom.xml" "$libs/pom.xml"; then
    return
  fi
  command -v mvn >/dev/null || fail "mvn fetches Kafka's jars and is missing; install it: apt-get install -y maven (or brew install maven)"
  echo "fetching Kafka's jars into .kafka/libs" >&2
  local fresh=$dir/libs.$$
  rm -rf "$fresh"
  MAVEN_OPTS="${MAVEN_OPTS:-} -XX:-UsePerfData -Djava.io.tmpdir=$dir/tmp" \
    mvn --quiet --batch-mode --file "$here/pom.xml" -Dmaven.repo.local="$dir/m2" \
    dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$fresh" >&2 ||
    fail "mvn cannot fetch Kafka's jars, see above"
  # The copy of the pom says which jars these are; only a complete folder has it and gets the name.
  cp "$here/pom.xml" "$fresh/pom.xml"
  rm -rf "$libs"
  mv "$fresh" "$libs"
}

# running prints the pid when it still is our broker: a number alone may have been given to another process since.
running() {
  [ -f "$pid_file" ] || return 1
  local pid
  pid=$(cat "$pid_file")
  ps -p "$pid" -o args= 2>/dev/null | grep -qF "$config" || return 1
  echo "$pid"
}

is_free() {
  ! (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null
}

free_from() {
  local port=$1
  until is_free "$port"; do port=$((port + 1)); done
  echo "$port"
}

choose_port() {
  local wanted=${1:-}
  if [ -n "$wanted" ]; then
    [[ $wanted =~ ^[0-9]+$ ]] || fail "not a port: $wanted"
    is_free "$wanted" || fail "port $wanted is taken"
  else
    wanted=9092
    if [ -f "$brokers_file" ]; then
      wanted=$(sed 's/.*://' "$brokers_file")
    fi
    wanted=$(free_from "$wanted")
  fi
  echo "$wanted"
}

configure() {
  local port=$1 controller
  controller=$(free_from $((port + 1)))
  {
    cat "$here/server.properties"
    echo "listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$controller"
    echo "advertised.listeners=PLAINTEXT://127.0.0.1:$port"
    # Named here and not by the formatted data, so that the ports may change between two starts.
    echo "controller.quorum.voters=1@127.0.0.1:$controller"
    echo "log.dirs=$dir/data"
  } >"$config"
  sed 's/level="INFO"/level="ERROR"/' "$here/log4j2.xml" >"$dir/log4j2-tools.xml"
}

format() {
  if [ -f "$dir/data/meta.properties" ]; then
    return
  fi
  local id
  id=$(tool kafka.tools.StorageTool random-uuid)
  tool kafka.tools.StorageTool format -t "$id" -c "$config" >"$log" 2>&1 || {
    tail -n 20 "$log" >&2
    fail "cannot format .kafka/data"
  }
}

start() {
  nohup java -Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData -Djava.io.tmpdir="$dir/tmp" \
    -Dlog4j2.configurationFile="$here/log4j2.xml" -cp "$libs/*" kafka.Kafka "$config" >"$log" 2>&1 </dev/null &
  echo $! >"$pid_file"
}

await() {
  local port=$1
  for _ in $(seq 1 300); do
    running >/dev/null || {
      tail -n 20 "$log" >&2
      fail "the broker has ended, see above and .kafka/kafka.log"
    }
    if ! is_free "$port"; then
      return
    fi
    sleep 0.2
  done
  fail "the broker does not answer within a minute, see .kafka/kafka.log"
}

# make_topics makes those that are missing, and asks for a group once: the first asker makes Kafka create its group topic, and
# a service would have to wait for that.
make_topics() {
  local address=$1 have topic jobs=()
  have=$(tool org.apache.kafka.tools.TopicCommand --bootstrap-server "$address" --list)
  if ! grep -qxF __consumer_offsets <<<"$have"; then
    tool org.apache.kafka.tools.consumer.group.ConsumerGroupCommand --bootstrap-server "$address" --describe --group warm-up >/dev/null 2>&1 &
    jobs+=($!)
  fi
  for topic in "${topics[@]}"; do
    if ! grep -qxF "${topic%%:*}" <<<"$have"; then
      tool org.apache.kafka.tools.TopicCommand --bootstrap-server "$address" --create --if-not-exists \
        --topic "${topic%%:*}" --partitions "${topic##*:}" >/dev/null &
      jobs+=($!)
    fi
  done
  for job in "${jobs[@]+"${jobs[@]}"}"; do
    wait "$job" || true
  done
  have=$(tool org.apache.kafka.tools.TopicCommand --bootstrap-server "$address" --list)
  for topic in "${topics[@]}"; do
    grep -qxF "${topic%%:*}" <<<"$have" || fail "topic ${topic%%:*} was not made, see .kafka/kafka.log"
  done
}

up() {
  command -v java >/dev/null || fail "java 17 or later is missing; install it: apt-get install -y openjdk-17-jre-headless (or brew install openjdk)"
  mkdir -p "$dir/tmp"
  if running >/dev/null; then
    local address
    address=$(cat "$brokers_file")
    if [ -n "${1:-}" ] && [ "127.0.0.1:$1" != "$address" ]; then
      fail "already running at $address; run kafka.sh down first"
    fi
    make_topics "$address"
    echo "$address"
    return
  fi
  resolve_jars
  local port
  port=$(choose_port "${1:-}")
  configure "$port"
  format
  start
  await "$port"
  echo "127.0.0.1:$port" >"$brokers_file"
  make_topics "127.0.0.1:$port"
  cat "$brokers_file"
}

down() {
  local pid
  if ! pid=$(running); then
    rm -f "$pid_file"
    echo "not running" >&2
    return
  fi
  kill "$pid"
  for _ in $(seq 1 150); do
    if ! running >/dev/null; then
      rm -f "$pid_file"
      echo "stopped" >&2
      return
    fi
    sleep 0.2
  done
  fail "process $pid does not stop; look at .kafka/kafka.log"
}

status() {
  if running >/dev/null && [ -f "$brokers_file" ]; then
    cat "$brokers_file"
    return
  fi
  echo "not running" >&2
  exit 1
}

case ${1:-} in
up) up "${2:-}" ;;
down) down ;;
status) status ;;
*)
  echo "usage: kafka.sh up [port] | down | status" >&2
  exit 2
  ;;
esac
