package main

import (
	"bytes"
	"fmt"
	"strings"

	"bakeoff/cmd/bakeoff/cli"

	"github.com/spf13/cobra"
)

// manPages returns a manual page for every command that help shows
// (man(7), mandoc(1) and groff both read it), without a date so that the
// same program always writes the same bytes.
func manPages(root *cobra.Command) pages {
	p := pages{}
	for _, c := range visible(root) {
		p[manName(c)+".1"] = manPage(c)
	}
	return p
}

func manName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

func manPage(c *cobra.Command) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, ".TH %s 1 \"\" bakeoff \"bakeoff manual\"\n", strings.ToUpper(manName(c)))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", escapeRoff(manName(c)), escapeRoff(c.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n", escapeRoff(c.UseLine()))
	b.WriteString(".SH DESCRIPTION\n")
	manText(&b, longText(c))
	if c.HasAvailableSubCommands() {
		b.WriteString(".SH COMMANDS\n")
		for _, sub := range c.Commands() {
			if len(visible(sub)) > 0 {
				fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", escapeRoff(sub.Name()), escapeRoff(sub.Short))
			}
		}
	}
	if flags := visibleFlags(c); len(flags) > 0 && c.HasParent() {
		b.WriteString(".SH OPTIONS\n")
		for _, f := range flags {
			name, meaning := flagText(f)
			fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", escapeRoff(name), escapeRoff(meaning))
		}
	}
	if c.Example != "" {
		fmt.Fprintf(&b, ".SH EXAMPLES\n.nf\n%s\n.fi\n", escapeRoff(outdent(c.Example)))
	}
	b.WriteString(".SH EXIT STATUS\n")
	for _, e := range cli.ExitMeanings(c) {
		fmt.Fprintf(&b, ".TP\n.B %d\n%s\n", e.Code, escapeRoff(e.Meaning))
	}
	b.WriteString(".SH SEE ALSO\n")
	var see []string
	for _, o := range related(c) {
		see = append(see, ".BR "+escapeRoff(manName(o))+" (1)")
	}
	b.WriteString(strings.Join(see, " ,\n") + "\n")
	return b.Bytes()
}

// related are the command that c belongs to, and the commands below c; of a command without
// any, the others beside it.
func related(c *cobra.Command) (out []*cobra.Command) {
	of := c
	if c.HasParent() {
		out = append(out, c.Parent())
		if !c.HasAvailableSubCommands() && c.Parent().HasParent() {
			of = c.Parent()
		}
	}
	for _, o := range of.Commands() {
		if o != c && len(visible(o)) > 0 {
			out = append(out, o)
		}
	}
	return out
}

// manText writes paragraphs; indented lines keep their shape.
func manText(b *bytes.Buffer, text string) {
	for i, par := range strings.Split(text, "\n\n") {
		if i > 0 {
			b.WriteString(".PP\n")
		}
		if strings.HasPrefix(par, "  ") {
			fmt.Fprintf(b, ".nf\n%s\n.fi\n", escapeRoff(par))
			continue
		}
		fmt.Fprintln(b, escapeRoff(par))
	}
}

// escapeRoff escapes text for the formatter: backslashes, hyphens that are to stay
// hyphens, characters beyond ASCII, and lines that would begin with a control
// character.
func escapeRoff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(s)
	var out []string
	for _, line := range strings.Split(s, "\n") {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			line = `\&` + line
		}
		var b strings.Builder
		for _, r := range line {
			if r > 0x7e {
				fmt.Fprintf(&b, `\[u%04X]`, r) // groff_char(7), mandoc_char(7)
			} else {
				b.WriteRune(r)
			}
		}
		out = append(out, b.String())
	}
	return strings.Join(out, "\n")
}
