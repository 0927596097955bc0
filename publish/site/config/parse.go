package config

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"bakeoff/base/fault"
	"bakeoff/base/yamltree"
)

// MaxBytes bounds the file.
const MaxBytes = 1 << 20

// Parse reads the file's text over the defaults. A line that is not a plain
// assignment, or a value that a setting cannot take, is an error of kind
// fault.Invalid that names its line. Warnings name settings that bakeoff does not know.
//
// site is the absolute name of the site's folder, or "".
func Parse(text []byte, site string) (c Config, warnings []string, err error) {
	c = Default()
	if len(text) > MaxBytes {
		return c, nil, invalid(1, "is larger than %d bytes", MaxBytes)
	}
	f, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(bytes.NewReader(text), File)
	if err != nil {
		return c, nil, fault.WithFix(fault.Wrap(fault.Invalid, "settings", err), plain)
	}
	settings := c.settings(site)
	for _, stmt := range f.Stmts {
		assigns, err := assignments(stmt)
		if err != nil {
			return c, nil, err
		}
		for _, a := range assigns {
			name, values, err := assignment(a)
			if err != nil {
				return c, nil, err
			}
			set, ok := settings[name]
			if !ok {
				if w := unknown(name, a.Pos().Line(), settings); w != "" {
					warnings = append(warnings, w)
				}
				continue
			}
			if err := set(values); err != nil {
				return c, nil, invalid(a.Pos().Line(), "%s %w", name, err)
			}
		}
	}
	return c, warnings, c.complete()
}

const plain = `write each setting as NAME="value"; bakeoff reads the file and does not execute it`

// complete checks what several settings must agree on.
func (c *Config) complete() error {
	if _, err := c.Location(); err != nil {
		return fault.WithFix(fault.Wrap(fault.Invalid, File+": TIMEZONE", err), "use a name such as Europe/Rome, or local")
	}
	rest := slices.DeleteFunc(slices.Clone(c.Languages), func(l string) bool { return l == c.Language })
	slices.Sort(rest)
	c.Languages = append([]string{c.Language}, slices.Compact(rest)...)
	used := map[string]string{}
	for _, d := range []struct{ name, folder string }{{"SRC_DIR", c.Source}, {"PAGES_DIR", c.Pages},
		{"DRAFTS_DIR", c.Drafts}, {"STATIC_DIR", c.Static}, {"OUTPUT_DIR", c.Output}, {"RUNS_DIR", c.Runs}} {
		for other, name := range used {
			if d.folder == other || strings.HasPrefix(d.folder+"/", other+"/") || strings.HasPrefix(other+"/", d.folder+"/") {
				return fault.WithFix(fault.New(fault.Invalid, "%s: %s and %s overlap", File, name, d.name),
					"give each its own folder")
			}
		}
		used[d.folder] = d.name
	}
	return nil
}

// assignments returns the assignments of a statement that is nothing else.
func assignments(stmt *syntax.Stmt) ([]*syntax.Assign, error) {
	refused := fault.WithFix(invalid(stmt.Pos().Line(), "is not a plain assignment"), plain)
	if stmt.Background || stmt.Coprocess || stmt.Negated || len(stmt.Redirs) > 0 {
		return nil, refused
	}
	switch cmd := stmt.Cmd.(type) {
	case *syntax.CallExpr:
		if len(cmd.Args) == 0 {
			return cmd.Assigns, nil
		}
	case *syntax.DeclClause:
		if cmd.Variant.Value != "export" {
			return nil, refused
		}
		for _, a := range cmd.Args {
			if a.Naked || a.Name == nil {
				return nil, refused
			}
		}
		return cmd.Args, nil
	}
	return nil, refused
}

// assignment returns the name and the literal values of an assignment.
func assignment(a *syntax.Assign) (string, []string, error) {
	line := a.Pos().Line()
	if a.Append || a.Index != nil {
		return "", nil, fault.WithFix(invalid(line, "is not a plain assignment"), plain)
	}
	words := []*syntax.Word{a.Value}
	if a.Array != nil {
		words = nil
		for _, e := range a.Array.Elems {
			if e.Index != nil || e.Value == nil {
				return "", nil, fault.WithFix(invalid(line, "is not a plain assignment"), plain)
			}
			words = append(words, e.Value)
		}
	}
	var values []string
	for _, w := range words {
		v, ok := literal(w)
		if !ok {
			return "", nil, fault.WithFix(invalid(line, "%s uses an expansion", a.Name.Value), plain)
		}
		values = append(values, v)
	}
	return a.Name.Value, values, nil
}

// literal returns what a word stands for if nothing in it is expanded.
func literal(w *syntax.Word) (string, bool) {
	if w == nil {
		return "", true
	}
	var out strings.Builder
	for _, part := range w.Parts {
		switch p := part.(type) {
		case *syntax.Lit:
			out.WriteString(unescape(p.Value, ""))
		case *syntax.SglQuoted:
			if p.Dollar {
				return "", false
			}
			out.WriteString(p.Value)
		case *syntax.DblQuoted:
			if p.Dollar {
				return "", false
			}
			for _, inner := range p.Parts {
				lit, ok := inner.(*syntax.Lit)
				if !ok {
					return "", false
				}
				out.WriteString(unescape(lit.Value, "$`\"\\\n"))
			}
		default:
			return "", false
		}
	}
	return out.String(), true
}

// unescape removes backslashes before the characters in only, before any if only is "".
func unescape(s, only string) string {
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && (only == "" || strings.IndexByte(only, s[i+1]) >= 0) {
			i++
			if s[i] == '\n' {
				continue
			}
		}
		out.WriteByte(s[i])
	}
	return out.String()
}

func unknown(name string, line uint, settings map[string]func([]string) error) string {
	if slices.Contains(unused, name) {
		return ""
	}
	w := fmt.Sprintf("%s:%d: bakeoff does not know the setting %s", File, line, name)
	if hint := yamltree.Meant(name, slices.Sorted(maps.Keys(settings))); strings.HasPrefix(hint, "did you mean") {
		w += "; " + hint
	}
	return w
}

func invalid(line uint, format string, args ...any) error {
	return fault.New(fault.Invalid, "%s:%d: "+format, append([]any{File, line}, args...)...)
}
