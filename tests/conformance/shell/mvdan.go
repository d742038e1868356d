// mvdan: lines as JSON strings, answered with what mvdan.cc/sh reads (shells.py has the form), once as bash and once
// as POSIX shell; the two have to be the same.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

type other struct{ what string }

func fail(format string, a ...any) { panic(other{fmt.Sprintf(format, a...)}) }

// Outside of quotes: a backslash is taken away; a sign that is expanded later is none of ours.
func literal(text string, first bool) string {
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text):
			i++
			if text[i] != '\n' {
				out.WriteByte(text[i])
			}
		case strings.IndexByte("*?[{", c) >= 0 || (c == '~' && first && i == 0):
			fail("%c outside of quotes", c)
		default:
			out.WriteByte(c)
		}
	}
	return out.String()
}

func inQuotes(text string) string {
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) && strings.IndexByte("$`\"\\\n", text[i+1]) >= 0 {
			i++
			if text[i] == '\n' {
				continue
			}
		}
		out.WriteByte(text[i])
	}
	return out.String()
}

func word(w *syntax.Word) string {
	if w == nil {
		return ""
	}
	var out strings.Builder
	for i, part := range w.Parts {
		switch p := part.(type) {
		case *syntax.Lit:
			out.WriteString(literal(p.Value, i == 0))
		case *syntax.SglQuoted:
			if p.Dollar {
				fail("$'")
			}
			out.WriteString(p.Value)
		case *syntax.DblQuoted:
			if p.Dollar {
				fail("$\"")
			}
			for _, inner := range p.Parts {
				l, ok := inner.(*syntax.Lit)
				if !ok {
					fail("%T in quotes", inner)
				}
				out.WriteString(inQuotes(l.Value))
			}
		default:
			fail("%T in a word", part)
		}
	}
	return out.String()
}

func redirect(r *syntax.Redirect) []any {
	descriptor := 1
	if r.Op.String() == "<" {
		descriptor = 0
	}
	if r.Hdoc != nil {
		fail("a here-document")
	}
	if r.N != nil {
		if len(r.N.Value) != 1 || r.N.Value[0] < '0' || r.N.Value[0] > '9' {
			fail("descriptor %s", r.N.Value)
		}
		descriptor = int(r.N.Value[0] - '0')
	}
	return []any{descriptor, r.Op.String(), word(r.Word)}
}

func statement(s *syntax.Stmt, operator string, to *[]any) {
	if s.Negated || s.Background || s.Coprocess || s.Disown {
		fail("! or & or |&")
	}
	switch c := s.Cmd.(type) {
	case *syntax.BinaryCmd:
		if len(s.Redirs) > 0 || (c.Op != syntax.AndStmt && c.Op != syntax.OrStmt && c.Op != syntax.Pipe) {
			fail("%s", c.Op)
		}
		statement(c.X, operator, to)
		statement(c.Y, c.Op.String(), to)
	case *syntax.CallExpr:
		if len(c.Args) == 0 {
			fail("no name")
		}
		env := map[string]string{}
		for _, a := range c.Assigns {
			if a.Append || a.Naked || a.Index != nil || a.Array != nil {
				fail("an assignment other than NAME=")
			}
			if _, twice := env[a.Name.Value]; twice {
				fail("a variable twice")
			}
			env[a.Name.Value] = word(a.Value)
		}
		args := []any{}
		for _, w := range c.Args[1:] {
			args = append(args, word(w))
		}
		redirects := []any{}
		for _, r := range s.Redirs {
			redirects = append(redirects, redirect(r))
		}
		*to = append(*to, []any{operator, word(c.Args[0]), args, env, redirects})
	default:
		fail("%T", s.Cmd)
	}
}

func read(line string, variant syntax.LangVariant) (answer any) {
	defer func() {
		if e := recover(); e != nil {
			o, ok := e.(other)
			if !ok {
				panic(e)
			}
			answer = map[string]string{"error": o.what}
		}
	}()
	file, err := syntax.NewParser(syntax.Variant(variant), syntax.KeepComments(true)).Parse(strings.NewReader(line), "")
	if err != nil {
		return map[string]string{"error": err.Error()}
	}
	commands := []any{}
	for i, s := range file.Stmts {
		operator := ""
		if i > 0 {
			operator = ";"
		}
		if len(s.Comments) > 0 {
			fail("a comment")
		}
		statement(s, operator, &commands)
	}
	return commands
}

func main() {
	in, out := bufio.NewReaderSize(os.Stdin, 1<<20), bufio.NewWriter(os.Stdout)
	defer out.Flush()
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	decoder := json.NewDecoder(in)
	var line string
	for decoder.Decode(&line) == nil {
		bash, posix := read(line, syntax.LangBash), read(line, syntax.LangPOSIX)
		if !reflect.DeepEqual(bash, posix) {
			bash = map[string]any{"error": "bash and POSIX differ", "bash": bash, "posix": posix}
		}
		if encoder.Encode(bash) != nil {
			os.Exit(1)
		}
	}
}
