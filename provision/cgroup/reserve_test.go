package cgroup

import (
	"os"
	"path"
	"testing"

	"bakeoff/reach/conn/local"
)

// A program that makes groups in a hierarchy of its choice, directory by
// directory, finds the common parent there whoever leaves meanwhile, and what
// was made for it goes with the group.
func TestReserve(t *testing.T) {
	other := real(t, ours+"-leaves", Limits{})
	l, label, host := other.layout, ours+"-comes", local.Conn{}
	except := l.hierarchies()[0]
	if err := l.Reserve(t.Context(), host, label, except); err != nil {
		t.Fatal(err)
	}
	if err := other.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	var made []string
	for _, h := range l.hierarchies() {
		dir := path.Join(h, parent, label)
		err := os.Mkdir(path.Join(dir, "its-own"), 0o755)
		switch {
		case h == except && err == nil:
			t.Errorf("%s was to be left out", dir)
		case h != except && err != nil:
			t.Errorf("creating a group there fails: %v", err)
		case h != except:
			made = append(made, dir)
		}
	}
	g, err := l.Adopt(t.Context(), host, label, Limits{})
	if err != nil || len(g.Dirs()) != len(made) {
		t.Fatalf("%v, %v; want %q", g, err, made)
	}
	if err := g.Remove(t.Context()); err != nil {
		t.Error(err)
	}
	for _, dir := range made {
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s is left", dir)
		}
	}
}
