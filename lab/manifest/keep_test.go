package manifest

import (
	"slices"
	"strings"
	"testing"

	"bakeoff/base/fault"
)

func TestKeepLeavesTheCellsThatAreNamed(t *testing.T) {
	names := func(l *Lab) (out []string) {
		for _, c := range l.Cells {
			out = append(out, c.Name)
		}
		return out
	}
	l := &Lab{Path: "lab.yaml", Cells: []Cell{{Name: "a"}, {Name: "b"}, {Name: "c"}}}
	if err := l.Keep(nil); err != nil || len(l.Cells) != 3 || l.Only != nil {
		t.Errorf("no names: %v, %v, only %v", err, names(l), l.Only)
	}
	if err := l.Keep([]string{"c", "a", "c"}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"a", "c"}; !slices.Equal(names(l), want) || !slices.Equal(l.Only, want) {
		t.Errorf("cells %v, only %v, want %v in the lab file's order", names(l), l.Only, want)
	}
	err := l.Keep([]string{"b"})
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "a or c") {
		t.Errorf("a cell that is gone: %v", err)
	}
}

// A cell that names profiles is part of their runs, and of runs that name the cell.
func TestCellsOfProfiles(t *testing.T) {
	const text = `schema: bakeoff/lab/v1
name: parts
contenders: [{name: host, driver: host, params: {b: {time: 2s}}}, {name: again, driver: host}]
baseline: host
cells:
  - {name: a, workload: crypto, params: {algorithm: sha256}}
  - {name: b, workload: crypto, params: {algorithm: sha256}, profiles: [full, ci]}
  - {name: c, workload: crypto, params: {algorithm: sha256}, profiles: [full]}
profiles: {ci: {design: {blocks: 1}}, full: {}, short: {}}
`
	for _, tt := range []struct {
		profile string
		only    []string
		want    string
	}{{"", nil, "a"}, {"ci", nil, "ab"}, {"full", nil, "abc"}, {"short", nil, "a"}, {"", []string{"c"}, "c"}} {
		l, err := Parse("lab.yaml", []byte(text), catalogue(), tt.profile)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Keep(tt.only); err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, c := range l.Cells {
			got += c.Name
		}
		if got != tt.want || len(l.Only) != len(tt.only) ||
			(len(l.Contenders[0].Params) > 0) != strings.Contains(got, "b") {
			t.Errorf("profile %q, only %v: cells %s, want %s; %+v", tt.profile, tt.only, got, tt.want, l.Contenders[0])
		}
	}
	all := strings.Replace(text, "name: a,", "profiles: [ci], name: a,", 1)
	l, err := Parse("lab.yaml", []byte(all), catalogue(), "short")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Keep(nil); !fault.Is(err, fault.Invalid) || fault.Fix(err) == "" {
		t.Errorf("a profile without cells: %v", err)
	}
	for list, want := range map[string]string{"[ful]": `there is no profile "ful"`, "[]": "profiles is empty"} {
		_, err := Parse("lab.yaml", []byte(strings.Replace(text, "[full, ci]", list, 1)), catalogue(), "")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", list, err, want)
		}
	}
}
