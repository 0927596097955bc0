package main

import (
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
)

const source = `package p

import "fmt"

func f(xs []int, ok bool) (int, bool) {
	n := 0
	if ok {
		n = 2
	}
	for _, x := range xs {
		if x < 1 {
			n += x
		}
	}
	fmt.Println(n, 0.05, 1e-9)
	return n * 3, n == 6 || ok
}
`

// Each kind of change is made, and each leaves a file that can be parsed.
func TestMutants(t *testing.T) {
	all, err := mutants("p.go", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range all {
		got = append(got, m.String())
		changed := string(m.applyTo([]byte(source)))
		if changed == source {
			t.Errorf("%s changes nothing", m)
		}
		if _, err := parser.ParseFile(token.NewFileSet(), "p.go", changed, 0); err != nil {
			t.Errorf("%s: %v", m, err)
		}
		if strings.Count(changed, "\n") != strings.Count(source, "\n") {
			t.Errorf("%s changes the number of lines", m)
		}
	}
	want := []string{
		"p.go:6: 0 becomes 1",
		"p.go:7: ok is negated",
		"p.go:8: n = 2 is dropped", "p.go:8: 2 becomes 3", "p.go:8: 2 becomes 1",
		"p.go:11: < becomes <= in x < 1", "p.go:11: < becomes >= in x < 1", "p.go:11: 1 becomes 2", "p.go:11: 1 becomes 0",
		"p.go:12: n += x is dropped", "p.go:12: += becomes -= in n += x",
		"p.go:15: fmt.Println(n, 0.05, 1e-9) is dropped", "p.go:15: 0.05 becomes 0.06", "p.go:15: 1e-9 becomes 2e-9",
		"p.go:16: * becomes / in n * 3", "p.go:16: 3 becomes 4", "p.go:16: 3 becomes 2",
		"p.go:16: true is returned instead of n == 6 || ok", "p.go:16: false is returned instead of n == 6 || ok",
		"p.go:16: == becomes != in n == 6", "p.go:16: 6 becomes 7", "p.go:16: 6 becomes 5",
		"p.go:16: || becomes && in n == 6 || ok",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if _, err := mutants("p.go", []byte("package")); err == nil {
		t.Error("a file that cannot be parsed gave no error")
	}
}
