# The fleet of ops/run --fleet N (sourced by it): engines beside each other, and nginx in front of them.
#
#   engine 1   has its data in DIR, as the engine of ops/run has; engine i has it in DIR/engine-i
#   ports      nginx has --engine-port, engine i the i-th after it
#
# An engine that ends is started again, as a supervisor does: one that lost the lead ends by itself.
# Without an end: five ends within a minute stop all.

fleet_name=local
engine_pids=() engine_ends=() engine_end_times=()

fleet_data() { if [ "$1" = 1 ]; then echo "$data"; else echo "$data/engine-$1"; fi; } # ENGINE
fleet_port() { echo $((engine_port + $1)); }                                        # ENGINE
fleet_url() { echo "http://127.0.0.1:$(fleet_port "$1")"; }                         # ENGINE
# A directory of an engine without a fleet has its name already.
fleet_node() { # DATA of an engine
    if [ "$1" = "$data" ]; then echo engine-1; else echo "${1##*/}"; fi
}
fleet_urls() { # all, with commas
    local i urls=''
    for i in $(seq "$fleet"); do urls+=,$(fleet_url "$i"); done
    echo "${urls#,}"
}

fleet_start_engine() { # ENGINE [option …]
    local i=$1 of node=()
    of=$(fleet_data "$i")
    mkdir -p "$of/engine"
    [ -e "$of/engine/node" ] || node=(--node "$(fleet_node "$of")")
    start "engine-$i" "$bin/writ-engine" --data "$of" --pepper_file "$pepper" --listen "127.0.0.1:$(fleet_port "$i")" \
        --platform.url "$between" --platform.key_file "$data/engine/platform.key" --http.trusted_proxies 127.0.0.1 \
        --fleet "$fleet_name" --fleet.advertise "$(fleet_url "$i")" --fleet.single_broker true \
        "${node[@]}" "${engine_servers[@]}" "${@:2}"
    engine_pids[i]=$started
}

# The first engine makes the fleet at its very first start, with the state that it has.
fleet_start() {
    local i seed=()
    [ -e "$data/engine/fleet" ] || seed=(--fleet.seed true)
    fleet_start_engine 1 "${seed[@]}"
    ready engine-1 "$(fleet_url 1)" "${engine_pids[1]}"
    for i in $(seq 2 "$fleet"); do fleet_start_engine "$i"; done
    for i in $(seq 2 "$fleet"); do ready "engine-$i" "$(fleet_url "$i")" "${engine_pids[i]}"; done
}

# Passive retries, and only of what is safe to repeat: nginx never sends a POST again once a byte of it was
# sent, and asks the next engine if none was. PUT and DELETE it would send again, so they get one try.
fleet_nginx_settings() {
    local i common
    common='proxy_pass http://engines;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header Host $http_host;
            proxy_set_header X-Forwarded-For $remote_addr;
            proxy_connect_timeout 2s;
            proxy_read_timeout 3700s;
            proxy_send_timeout 60s;'
    cat <<END
daemon off;
master_process off;
pid nginx.pid;
error_log nginx.log warn;
events { worker_connections 4096; }
http {
    access_log off;
    client_body_temp_path temp/body;
    proxy_temp_path temp/proxy;
    fastcgi_temp_path temp/fastcgi;
    uwsgi_temp_path temp/uwsgi;
    scgi_temp_path temp/scgi;
    client_max_body_size 64m;
    large_client_header_buffers 4 32k;
    upstream engines {
$(for i in $(seq "$fleet"); do echo "        server 127.0.0.1:$(fleet_port "$i") max_fails=0;"; done)
    }
    server {
        listen 127.0.0.1:$engine_port;
        location / {
            if (\$request_method ~ ^(PUT|DELETE)\$) { return 418; }
            error_page 418 = @once;
            proxy_next_upstream error timeout http_503;
            $common
        }
        location @once {
            proxy_next_upstream off;
            $common
        }
    }
}
END
}

fleet_start_nginx() {
    local nginx
    nginx=$(PATH=$PATH:/usr/sbin:/sbin command -v nginx) || fail "there is no nginx: ops/setup fleet installs it"
    mkdir -p "$data/nginx/temp"
    fleet_nginx_settings >"$data/nginx/nginx.conf"
    start nginx "$nginx" -p "$data/nginx" -e nginx.log -c nginx.conf
    nginx_pid=$started
    ready nginx "$engine" "$nginx_pid"
}

fleet_stop() {
    local i
    stop "$nginx_pid"
    for i in "${!engine_pids[@]}"; do kill -TERM "${engine_pids[i]}" 2>/dev/null || :; done
    for i in "${!engine_pids[@]}"; do stop "${engine_pids[i]}"; done
}

# Starts engines that have ended again; false: something ended that stays down, and $who is its name.
fleet_watch() {
    local i now
    for i in "${!engine_pids[@]}"; do
        kill -0 "${engine_pids[i]}" 2>/dev/null && continue
        printf -v now '%(%s)T' -1
        wait "${engine_pids[i]}" 2>/dev/null && engine_ends[i]=0 || engine_ends[i]=$?
        engine_end_times[i]="$(tr ' ' '\n' <<<"${engine_end_times[i]:-}" | awk -v least=$((now - 60)) '$1 > least' | tr '\n' ' ')$now"
        if [ "$(wc -w <<<"${engine_end_times[i]}")" -ge 5 ]; then
            who=engine-$i
            return 1
        fi
        echo "ops/run: engine-$i ended (status ${engine_ends[i]}) and is started again" >&2
        fleet_start_engine "$i"
    done
    if ! kill -0 "$nginx_pid" 2>/dev/null; then
        who=nginx
        return 1
    fi
}
