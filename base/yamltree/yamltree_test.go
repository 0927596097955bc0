package yamltree

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"bakeoff/base/fault"
)

type half float64

func (h *half) UnmarshalNode(n *Node, r *Reporter) {
	if n.String() != "0.5" {
		r.Add(n.Position, "write 0.5", "%s is not a half", Show(n.String()))
	}
	*h = 0.5
}

type record struct {
	Text  string          `yaml:"text"`
	On    bool            `yaml:"on"`
	N     int             `yaml:"n"`
	X     float64         `yaml:"x"`
	List  []string        `yaml:"list"`
	Map   map[string]half `yaml:"map"`
	Items []struct {
		Name string `yaml:"name"`
	} `yaml:"items"`
	Own string `yaml:"-"`
}

var plain = Format{Name: "record", Schema: "record/v1"}

func TestDecode(t *testing.T) {
	const src = "text: 0002\non: true\nn: 3\nx: 1e3\nlist: [a, 1]\nmap: {h: 0.5}\nitems: [{name: b}, {}]\n"
	r := &Reporter{File: "r.yaml"}
	var got record
	Decode(Parse([]byte(src), plain, r), &got, r)
	want := record{Text: "0002", On: true, N: 3, X: 1e3, List: []string{"a", "1"}, Map: map[string]half{"h": 0.5},
		Items: got.Items}
	if err := r.Err(); err != nil || !reflect.DeepEqual(got, want) || len(got.Items) != 2 || got.Items[0].Name != "b" {
		t.Errorf("%+v, %v", got, err)
	}
}

// Everything that does not fit is reported at once, each at its place.
func TestErrors(t *testing.T) {
	const src = "text: [a]\non: yes\nn: 1.5\nx: much\nlist: a\nmap: {h: 1}\nitems:\n  - {nam: b}\nOwn: x\n"
	r := &Reporter{File: "r.yaml"}
	Decode(Parse([]byte(src), plain, r), &record{}, r)
	err := r.Err()
	want := `r.yaml:1:7: text is a list; write a single value
r.yaml:2:5: on is "yes"; write true or false
r.yaml:3:4: n is "1.5"; write a whole number
r.yaml:4:4: x is "much"; write a number
r.yaml:5:7: list is a single value; write a list
r.yaml:6:10: "1" is not a half; write 0.5
r.yaml:8:6: unknown key "nam" in items; did you mean "name"?
r.yaml:9:1: unknown key "Own" in the file; did you mean "on"?`
	if !fault.Is(err, fault.Invalid) || err.Error() != want {
		t.Errorf("%v", err)
	}
}

// A value that does not fit leaves the field as it was, so that no later check reports a value that
// nobody wrote.
func TestKeeps(t *testing.T) {
	const src = "on: t\nn: 99999999999999999999\nx: 1e999\n"
	r := &Reporter{File: "r.yaml"}
	got := record{N: 7, X: 0.5}
	Decode(Parse([]byte(src), plain, r), &got, r)
	if r.Err() == nil || got.On || got.N != 7 || got.X != 0.5 {
		t.Errorf("%+v, %v", got, r.Err())
	}
}

func TestMeant(t *testing.T) {
	long := strings.Repeat("x", math.MaxInt16)
	for want, got := range map[string]string{
		`did you mean "host"?`: Meant("hots", []string{"crun", "host"}),
		"use crun or host":     Meant("qemu", []string{"crun", "host"}),
		"there is none":        Meant("a", nil),
		"merge keys are not supported; write the keys out": Meant("<<", []string{"io"}),
		"use a": Meant(long, []string{"a"}),
		"use 0123456789, 0123456789, 0123456789, 0123456789, 0123456789, 0123456789, 0123456789, 0123456789, 0123456789, " +
			"0123456789, 0123456789, 0123456789, 0123456789, 0123456789, 0123456789, 0123456789, 0123456789, 0123456789, " +
			"0123456789, 0123456789 or one of 5 more": Meant("x", strings.Fields(strings.Repeat("0123456789 ", 25))),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// No bytes make Parse or Decode panic, and a tree or an error comes of all.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"a: &b [1, *b]", "- - - a", "? [a]\n: b", "a: |\n x\n", "<<<<<<< ours", "\t",
		"%YAML 1.2\n---\na", "a: !!str 1"} {
		f.Add([]byte(s), true)
	}
	f.Fuzz(func(t *testing.T, src []byte, aliases bool) {
		format := plain
		format.Aliases = aliases
		r := &Reporter{File: "r.yaml"}
		root := Parse(src, format, r)
		if root == nil {
			if !fault.Is(r.Err(), fault.Invalid) {
				t.Fatalf("neither a tree nor an error: %v", r.Err())
			}
			return
		}
		Decode(root, &record{}, r)
	})
}
