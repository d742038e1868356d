# Kafka for ops/stack (sourced by it): one broker that is its own controller (KRaft), from Maven Central.
#
#   WRIT_KAFKA_PORT   default 19092; the controller takes the next one
#   WRIT_KAFKA_JARS   where the jars are kept, fetched once (default: build/stack-jars of this checkout)
#   WRIT_KAFKA_POM    what to fetch as Kafka, into jars of its own (default: ops/lib/kafka/pom.xml)
#   WRIT_KAFKA_MORE   a file of further settings for the broker, which win over those here (default: none)
#   WRIT_KAFKA_SCRAM  users to make when the data directory is: "SCRAM-SHA-512=[name=NAME,password=WORD] …" (default: none)
#
# The last two settings below are what makes the broker come back in 3 s after a crash: by the defaults
# it waits 16 to 20 s for its own former session to end.
kafka_port=${WRIT_KAFKA_PORT:-19092}
kafka_jars=${WRIT_KAFKA_JARS:-$top/build/stack-jars}
kafka_java=(java -XX:+UseSerialGC -XX:TieredStopAtLevel=1)

# This machine cannot have it: status 3, so that tests know this from a server that fails.
kafka_cannot() {
    echo "ops/stack: kafka cannot be had here: $1" >&2
    exit 3
}

# Fetched beside and then renamed, so that what is there is whole; two at a time do no harm.
kafka_fetch() {
    [ ! -d "$kafka_jars/lib" ] || return 0
    command -v mvn >/dev/null || kafka_cannot "Maven is not installed (ops/setup stack installs it)"
    local fresh
    mkdir -p "$kafka_jars"
    fresh=$(mktemp -d "$kafka_jars/fetch.XXXXXX")
    echo "ops/stack: fetching Kafka from Maven Central …" >&2
    cp "${WRIT_KAFKA_POM:-$top/ops/lib/kafka/pom.xml}" "$fresh/pom.xml"
    if ! (cd "$fresh" && timeout 600 mvn -B -q -Dmaven.repo.local="$kafka_jars/m2" \
        org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies -DoutputDirectory="$fresh/lib") >"$fresh/log" 2>&1; then
        tail -3 "$fresh/log" >&2
        rm -rf "$fresh"
        kafka_cannot "Maven Central does not give its jars"
    fi
    mv -T "$fresh/lib" "$kafka_jars/lib" 2>/dev/null || [ -d "$kafka_jars/lib" ]
    rm -rf "$fresh"
}

kafka_settings() {
    cat <<END
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$((kafka_port + 1))
listeners=PLAINTEXT://127.0.0.1:$kafka_port,CONTROLLER://127.0.0.1:$((kafka_port + 1))
advertised.listeners=PLAINTEXT://127.0.0.1:$kafka_port
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs=data
num.network.threads=2
num.io.threads=4
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
log.retention.ms=-1
log.retention.bytes=-1
broker.session.timeout.ms=1000
broker.heartbeat.interval.ms=450
metadata.max.idle.interval.ms=0
END
    [ -z "${WRIT_KAFKA_MORE:-}" ] || cat "$WRIT_KAFKA_MORE"
}

kafka_pid() { pid_of kafka java; }
kafka_answers() { listens "$kafka_port"; }
kafka_address() { echo "127.0.0.1:$kafka_port"; }

kafka_start() {
    local home=$state/kafka archive=$kafka_jars/kafka.jsa cluster pid port user scram=()
    command -v java >/dev/null || kafka_cannot "Java is not installed (ops/setup stack installs it)"
    kafka_fetch
    for port in "$kafka_port" $((kafka_port + 1)); do need_port "$port" WRIT_KAFKA_PORT; done
    mkdir -p "$home"
    kafka_settings >"$home/server.properties"
    cp "$top/ops/lib/kafka/log4j2.properties" "$home/"
    if [ ! -e "$home/data/meta.properties" ]; then
        cluster=$(head -c16 /dev/urandom | base64 | tr '+/' 'AB' | tr -d =)
        for user in ${WRIT_KAFKA_SCRAM:-}; do scram+=(--add-scram "$user"); done
        (cd "$home" && "${kafka_java[@]}" -cp "$kafka_jars/lib/*" kafka.tools.StorageTool format -t "$cluster" -c server.properties "${scram[@]}" >format.log 2>&1) || {
            tail -5 "$home/format.log" >&2
            exit 1
        }
    fi
    # What the JVM unpacks stays behind where it is killed: here, not in everybody's /tmp.
    rm -rf "$home/tmp"
    mkdir "$home/tmp"
    # An archive of the classes, written at the first clean stop, halves the time to start.
    if [ -e "$archive" ]; then archive=-XX:SharedArchiveFile=$archive; else archive=-XX:ArchiveClassesAtExit=$archive; fi
    (cd "$home" && exec setsid "${kafka_java[@]}" -Xms256m -Xmx384m "$archive" -Dlog4j2.configurationFile=log4j2.properties \
        -Dkafka.log=log -Djava.io.tmpdir=tmp -cp "$kafka_jars/lib/*" kafka.Kafka server.properties) >"$home/stdout.log" 2>&1 </dev/null &
    pid=$!
    echo "$pid" >"$home/pid"
    # A JVM takes its time where others use the processors, too.
    for _ in $(seq 1200); do
        ! kafka_answers || return 0
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.1
    done
}
