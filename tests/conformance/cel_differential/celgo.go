// celgo - cel-go behind two line protocols, so that our engine can be held against it.
//
//	celgo answers   one question a line in, one answer a line out:
//	                {"expr": "...", "vars": {name: type}, "bindings": {name: VALUE}} gives
//	                {"value": VALUE} or {"error": "...", "phase": "parse" | "check" | "run"}
//	celgo times     {"expr": "...", "inputs": [{name: plain JSON}...]} gives {"ns": N}, or {"error": "..."}
//	celgo version   the version of cel-go that was linked
//
// VALUE and the names of types are those of `writ cel --conformance`. Expressions have the variables of
// conditions (times) or those that the question names (answers), the standard library, and the extensions that
// conditions have too: strings, math, bindings and comprehensions with two variables.
//
// Times are of CPU, the collector's share included, on one processor; best of several rounds.
package main

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"syscall"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/ext"
)

const (
	rounds = 7
	turns  = 100000
	enough = time.Second // of one condition
)

// ---- values in ----

type object = map[string]any

func text(v any) string {
	s, _ := v.(string)
	return s
}

func readDouble(v any) (float64, error) {
	if f, ok := v.(float64); ok {
		return f, nil
	}
	switch text(v) {
	case "NaN":
		return math.NaN(), nil
	case "Infinity":
		return math.Inf(1), nil
	case "-Infinity":
		return math.Inf(-1), nil
	case "-0":
		return math.Copysign(0, -1), nil
	}
	return 0, fmt.Errorf("no double: %v", v)
}

// Seconds and nanoseconds; either may be left out where it is 0.
func readTime(v any) (int64, int64) {
	o, _ := v.(object)
	seconds, _ := strconv.ParseInt(text(o["seconds"]), 10, 64)
	if f, ok := o["seconds"].(float64); ok {
		seconds = int64(f)
	}
	nanos, _ := o["nanos"].(float64)
	return seconds, int64(nanos)
}

func readMap(v any) (any, error) {
	pairs, _ := v.([]any)
	out := make(map[any]any, len(pairs))
	names := make(map[string]any, len(pairs))
	for _, p := range pairs {
		pair, ok := p.([]any)
		if !ok || len(pair) != 2 {
			return nil, errors.New("no pair")
		}
		key, err := read(pair[0])
		if err != nil {
			return nil, err
		}
		value, err := read(pair[1])
		if err != nil {
			return nil, err
		}
		out[key] = value
		if name, ok := key.(string); ok {
			names[name] = value
		}
	}
	if len(names) == len(out) {
		return names, nil // what decoded JSON is in Go
	}
	return out, nil
}

// One VALUE as what a Go program would bind.
func read(v any) (any, error) {
	o, ok := v.(object)
	if !ok || len(o) != 1 {
		return nil, fmt.Errorf("no value: %v", v)
	}
	for kind, held := range o {
		switch kind {
		case "null_value":
			return nil, nil
		case "bool_value", "string_value":
			return held, nil
		case "int64_value":
			return strconv.ParseInt(text(held), 10, 64)
		case "uint64_value":
			return strconv.ParseUint(text(held), 10, 64)
		case "double_value":
			return readDouble(held)
		case "bytes_value":
			return base64.StdEncoding.DecodeString(text(held))
		case "timestamp_value":
			seconds, nanos := readTime(held)
			return time.Unix(seconds, nanos).UTC(), nil
		case "duration_value":
			seconds, nanos := readTime(held)
			return time.Duration(seconds*1e9 + nanos), nil
		case "list_value":
			items, _ := held.([]any)
			out := make([]any, len(items))
			for i, item := range items {
				var err error
				if out[i], err = read(item); err != nil {
					return nil, err
				}
			}
			return out, nil
		case "map_value":
			return readMap(held)
		}
	}
	return nil, fmt.Errorf("unknown value: %v", v)
}

// ---- values out ----

func writeDouble(f float64) any {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	case f == 0 && math.Signbit(f):
		return "-0"
	}
	return f
}

func writeTime(seconds, nanos int64) any {
	return object{"seconds": strconv.FormatInt(seconds, 10), "nanos": nanos}
}

func write(v ref.Val) any {
	switch x := v.(type) {
	case types.Null:
		return object{"null_value": nil}
	case types.Bool:
		return object{"bool_value": bool(x)}
	case types.Int:
		return object{"int64_value": strconv.FormatInt(int64(x), 10)}
	case types.Uint:
		return object{"uint64_value": strconv.FormatUint(uint64(x), 10)}
	case types.Double:
		return object{"double_value": writeDouble(float64(x))}
	case types.String:
		return object{"string_value": string(x)}
	case types.Bytes:
		return object{"bytes_value": base64.StdEncoding.EncodeToString(x)}
	case types.Timestamp:
		return object{"timestamp_value": writeTime(x.Unix(), int64(x.Nanosecond()))}
	case types.Duration:
		return object{"duration_value": writeTime(int64(x.Duration/1e9), int64(x.Duration%1e9))}
	case *types.Type:
		return object{"type_value": x.TypeName()}
	case traits.Mapper:
		pairs := []any{}
		for it := x.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			pairs = append(pairs, []any{write(key), write(x.Get(key))})
		}
		return object{"map_value": pairs}
	case traits.Lister:
		items := []any{}
		for it := x.Iterator(); it.HasNext() == types.True; {
			items = append(items, write(it.Next()))
		}
		return object{"list_value": items}
	}
	return object{"other": fmt.Sprintf("%T", v)}
}

// ---- environments ----

var simpleTypes = map[string]*cel.Type{
	"int": cel.IntType, "uint": cel.UintType, "double": cel.DoubleType, "bool": cel.BoolType, "string": cel.StringType,
	"bytes": cel.BytesType, "dyn": cel.DynType, "google.protobuf.Timestamp": cel.TimestampType,
	"google.protobuf.Duration": cel.DurationType, "list(string)": cel.ListType(cel.StringType),
	"list(int)": cel.ListType(cel.IntType), "map(string, dyn)": cel.MapType(cel.StringType, cel.DynType),
}

func environment(vars map[string]string) (*cel.Env, error) {
	options := []cel.EnvOption{ext.Strings(), ext.Math(), ext.Bindings(), ext.TwoVarComprehensions(),
		cel.CrossTypeNumericComparisons(true)}
	for name, kind := range vars {
		t, ok := simpleTypes[kind]
		if !ok {
			return nil, fmt.Errorf("unknown type %s", kind)
		}
		options = append(options, cel.Variable(name, t))
	}
	return cel.NewEnv(options...)
}

var conditionVars = map[string]string{
	"action": "string", "tool": "string", "args": "map(string, dyn)", "resource": "map(string, dyn)",
	"context": "map(string, dyn)", "request": "map(string, dyn)", "actor": "string", "user": "string",
	"acting_for": "string", "tenant": "string", "scope": "list(string)", "roles": "list(string)",
	"now": "google.protobuf.Timestamp",
}

// ---- answers ----

type question struct {
	Expr     string
	Vars     map[string]string
	Bindings object
}

func failed(phase string, err error) object { return object{"error": err.Error(), "phase": phase} }

// A panic of the library is an error of it, which the test looks at like any other.
func evaluate(env *cel.Env, q *question) (answer object) {
	defer func() {
		if p := recover(); p != nil {
			answer = object{"error": fmt.Sprint("panic: ", p), "phase": "panic"}
		}
	}()
	bound := object{}
	for name, v := range q.Bindings {
		held, err := read(v)
		if err != nil {
			return failed("binding", err)
		}
		bound[name] = held
	}
	parsed, issues := env.Parse(q.Expr)
	if issues.Err() != nil {
		return failed("parse", issues.Err())
	}
	checked, issues := env.Check(parsed)
	if issues.Err() != nil {
		return failed("check", issues.Err())
	}
	program, err := env.Program(checked)
	if err != nil {
		return failed("program", err)
	}
	value, _, err := program.Eval(bound)
	if err != nil {
		return failed("run", err)
	}
	return object{"value": write(value)}
}

func answers(in *bufio.Scanner, out *json.Encoder) error {
	environments := map[string]*cel.Env{}
	for in.Scan() {
		var q question
		if err := json.Unmarshal(in.Bytes(), &q); err != nil {
			return err
		}
		key := fmt.Sprint(q.Vars) // maps are printed in the order of their keys
		env := environments[key]
		if env == nil {
			var err error
			if env, err = environment(q.Vars); err != nil {
				return err
			}
			environments[key] = env
		}
		if err := out.Encode(evaluate(env, &q)); err != nil {
			return err
		}
	}
	return in.Err()
}

// ---- times ----

func cpu() time.Duration {
	var usage syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// A request's variables: those that are not there are what the engine gives conditions.
func activation(plain object) (cel.Activation, error) {
	bound := object{}
	for name, kind := range conditionVars {
		switch kind {
		case "string":
			bound[name] = text(plain[name])
		case "list(string)":
			items, _ := plain[name].([]any)
			texts := []string{}
			for _, item := range items {
				texts = append(texts, text(item))
			}
			bound[name] = texts
		case "google.protobuf.Timestamp":
			at, err := time.Parse(time.RFC3339Nano, text(plain[name]))
			if err != nil {
				return nil, err
			}
			bound[name] = at
		default:
			if bound[name] = plain[name]; plain[name] == nil {
				bound[name] = object{}
			}
		}
	}
	return cel.NewActivation(bound)
}

func timed(env *cel.Env, expression string, inputs []object) (object, error) {
	checked, issues := env.Compile(expression)
	if issues.Err() != nil {
		return object{"error": issues.Err().Error()}, nil
	}
	program, err := env.Program(checked, cel.EvalOptions(cel.OptOptimize))
	if err != nil {
		return nil, err
	}
	bound := make([]cel.Activation, len(inputs))
	for i, plain := range inputs {
		if bound[i], err = activation(plain); err != nil {
			return nil, err
		}
	}
	best, yes := math.Inf(1), 0
	for round, begun := 0, cpu(); round < rounds && (round < 2 || cpu()-begun < enough); round++ {
		yes = 0
		runtime.GC()
		start := cpu()
		for i := 0; i < turns; i++ {
			if v, _, _ := program.Eval(bound[i%len(bound)]); v == types.True {
				yes++
			}
		}
		best = math.Min(best, float64((cpu()-start).Nanoseconds())/turns)
	}
	return object{"ns": best, "true": yes}, nil
}

func times(in *bufio.Scanner, out *json.Encoder) error {
	runtime.GOMAXPROCS(1)
	env, err := environment(conditionVars)
	if err != nil {
		return err
	}
	for in.Scan() {
		var line struct {
			Expr   string
			Inputs []object
		}
		if err := json.Unmarshal(in.Bytes(), &line); err != nil {
			return err
		}
		answer, err := timed(env, line.Expr, line.Inputs)
		if err != nil {
			return err
		}
		if err := out.Encode(answer); err != nil {
			return err
		}
	}
	return in.Err()
}

// ---- the program ----

func version() string {
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if module.Path == "cel.dev/cel-go" {
			return module.Version
		}
	}
	return "unknown"
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: celgo answers | times | version")
		os.Exit(2)
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(make([]byte, 1<<20), 16<<20)
	buffered := bufio.NewWriterSize(os.Stdout, 1<<16)
	var out *json.Encoder
	if os.Args[1] == "times" {
		out = json.NewEncoder(os.Stdout) // who asks waits for each
	} else {
		out = json.NewEncoder(buffered)
	}
	out.SetEscapeHTML(false)
	var err error
	switch os.Args[1] {
	case "answers":
		err = answers(in, out)
	case "times":
		err = times(in, out)
	case "version":
		fmt.Fprintln(buffered, version())
	default:
		err = errors.New("answers, times or version")
	}
	buffered.Flush()
	if err != nil {
		fmt.Fprintln(os.Stderr, "celgo:", err)
		os.Exit(1)
	}
}
