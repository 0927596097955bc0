package manifest

import (
	"fmt"
	"slices"
	"strings"

	"bakeoff/base/lists"
	"bakeoff/base/name"
	"bakeoff/base/param"
	"bakeoff/base/yamltree"
)

// Reference returns the reference page of the lab file in Markdown, for what
// cat holds. It is made from the same shapes that Parse checks files with.
func Reference(cat Catalogue) string {
	p := &page{}
	p.printf("# The lab file\n\nA lab file (`bakeoff.yaml`) describes a comparison. A run of the lab consists of "+
		"blocks. In each block, bakeoff measures every contender in every cell; each measurement is a trial. The "+
		"lab file is YAML 1.2 and at most 1 MiB; bakeoff refuses unknown keys. Sizes are written `4KiB`, `512MiB` "+
		"or `1.5GB`, durations `200ms`, `30s` or `1h30m`, rates `5000/s`. Names match the regular expression "+
		"`%s`.\n\n", name.Pattern)
	root := lab(cat)
	p.table(root.fields)
	p.nested("", root.fields)
	return p.String()
}

type page struct{ strings.Builder }

func (p *page) printf(format string, args ...any) { fmt.Fprintf(p, format, args...) }

// nested writes a section for each object below fields.
func (p *page) nested(path string, fields []field) {
	for _, f := range fields {
		s, at := f.shape, path+f.name
		for s.kind == list || s.kind == dict {
			if s.kind == list {
				at += "[]"
			} else {
				at += ".NAME"
			}
			s = s.of
		}
		if s.kind != object || (f.name == "design" || f.name == "files") && path != "" || len(s.fields) == 0 {
			continue
		}
		p.printf("## `%s`\n\n%s\n\n", at, f.doc)
		if f.shape.example != "" {
			p.printf("For example `%s`.\n\n", f.shape.example)
		}
		p.table(s.fields)
		p.variants(at, s)
		p.nested(at+".", s.fields)
	}
}

// variants writes what each driver or workload adds.
func (p *page) variants(path string, s *shape) {
	for _, v := range s.variants {
		p.printf("### `%s` with `%s: %s`\n\n%s.\n\n", path, s.by, v.value, sentence(v.doc))
		if params, ok := find(v.fields, "params"); ok {
			p.table(params.shape.fields)
			if primary, ok := find(v.fields, "primary"); ok {
				metrics := primary.shape.either[1].of.spec.Enum
				p.printf("`primary`: %s Metrics: `%s`.\n\n", primary.doc, strings.Join(metrics, "`, `"))
			}
			continue
		}
		p.table(v.fields)
	}
}

func (p *page) table(fields []field) {
	if len(fields) == 0 {
		p.printf("No options.\n\n")
		return
	}
	p.printf("| key | value | default | meaning |\n|---|---|---|---|\n")
	for _, f := range fields {
		def := "–"
		switch {
		case f.required:
			def = "required"
		case f.def != "":
			def = "`" + f.def + "`"
		}
		p.printf("| `%s` | %s | %s | %s |\n", f.name, cell(f.shape.words()), cell(def), cell(f.doc))
	}
	p.printf("\n")
}

// words names a shape for a table.
func (s *shape) words() string {
	switch s.kind {
	case list:
		return "list of " + s.of.words()
	case dict:
		return "name → " + s.of.words()
	case object:
		return "mapping"
	case eitherOf:
		all := lists.Map(s.either, func(a *shape) string { return a.words() })
		return strings.Join(all, ", or ")
	}
	switch {
	case len(s.spec.Enum) > 0:
		enum := slices.Clone(s.spec.Enum)
		for i := range enum {
			enum[i] = "`" + enum[i] + "`"
		}
		return yamltree.OneOf(enum)
	case s.pattern == name.Pattern:
		return "name"
	case s.spec.Kind == param.Bool:
		return "`true` or `false`"
	case s.spec.Kind == param.Int || s.spec.Kind == param.Number:
		return strings.TrimPrefix(sketch(s), "a ")
	}
	return string(s.spec.Kind)
}

func sentence(s string) string {
	s = strings.TrimSuffix(s, ".")
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// cell keeps a text inside its cell of a Markdown table.
func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ").Replace(s)
}
