package all

import (
	"os"
	"slices"
	"strings"
	"testing"

	tools "bakeoff/measure/tool/all"
	"bakeoff/measure/workload"
	"bakeoff/measure/workload/loops"
	systemall "bakeoff/reach/system/all"
)

// A package of an unknown system is never looked for.
func TestToolsNameSystemsThatThereAre(t *testing.T) {
	var known []string
	for _, s := range systemall.Systems() {
		known = append(known, s.Doc().Name)
	}
	for _, x := range tools.Tools() {
		for name := range x.Doc().Packages {
			if !slices.Contains(known, name) {
				t.Errorf("tool %s has packages of %q, which is none of %q", x.Doc().Name, name, known)
			}
		}
	}
}

func TestListsAreSorted(t *testing.T) {
	var names, parts []string
	for _, w := range Parsers() {
		names = append(names, w.Doc().Name)
	}
	for _, l := range loops.All() {
		parts = append(parts, l.Name)
	}
	for _, list := range [][]string{names, parts} {
		if !slices.IsSorted(list) || len(slices.Compact(slices.Clone(list))) != len(list) {
			t.Errorf("%v is not in order, or has a name twice", list)
		}
	}
	for _, l := range parts {
		if !slices.Contains(names, l) {
			t.Errorf("the loop %s has no workload", l)
		}
	}
}

// A plan refuses exactly the loops that the agent for Windows does not have.
func TestLoopsOfWindows(t *testing.T) {
	src, err := os.ReadFile("../loops/loops_windows.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range Parsers() {
		n, ok := p.(workload.NativeParser)
		if !ok {
			continue
		}
		doc := n.Doc()
		refused := doc.Refuse != nil && doc.Refuse(nil, workload.Storage{System: "windows"}) != nil
		if has := strings.Contains(string(src), doc.Name+".Loop()"); has == refused {
			t.Errorf("%s: in the agent for Windows %v, refused in a plan %v", doc.Name, has, refused)
		}
	}
}
