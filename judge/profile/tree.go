// Package profile says where the time of boots went, and compares it.
//
// A Tree joins spans that have the same path: the labels of the span and of all that
// enclose it. So it has one node for a function that was called a thousand times at one
// place, and nodes of different boots can be compared.
package profile

import (
	"cmp"
	"slices"

	"bakeoff/base/bootmodel"
)

// Tree is the call tree of boots.
type Tree struct {
	// Nodes are in an order in which parents come before their children.
	Nodes []Node
	// Ticks tells that times are ticks of a clock whose frequency is unknown, Instructions
	// that they are instructions of the instruction clock. Otherwise they are nanoseconds.
	Ticks, Instructions bool

	at     []int32 // the node of each span of the last boot, or -1
	nodes  map[key]int32
	labels map[label]int32
	boots  int
}

// Node is a path.
type Node struct {
	Name, Arg string
	// Parent is an index, or -1.
	Parent int32
	// Wait tells that the thread did nothing itself.
	Wait bool
	// label is the number of the name with its argument.
	label int32
}

// Label is the name with the argument.
func (n Node) Label() string { return bootmodel.Span{Name: n.Name, Arg: n.Arg}.Label() }

// Cost is what a path took in one boot, in nanoseconds or ticks. Spans that run at the same
// time count once.
type Cost struct {
	Count int // spans
	// Total is the time of the spans, Self that without what they enclose. Wait and Open are
	// what would be self times of spans that waited, and of spans that did not end. Self does
	// not have them.
	Self, Total, Wait, Open float64
	// Within, WaitWithin and TotalWithin are the parts of Self, Wait and Total within the boot, as
	// boot.Recording.Window says.
	Within, WaitWithin, TotalWithin float64
}

type label struct{ name, arg string }

type key struct{ parent, label int32 }

// NewTree returns a tree without nodes.
func NewTree() *Tree { return &Tree{nodes: map[key]int32{}, labels: map[label]int32{}} }

// Add adds the paths of a boot and returns what each node cost in it. The slice has no
// elements for nodes that a later call adds. Left is the number of spans whose clock
// cannot be placed on the reference clock: the tree does not have them.
//
// All boots of a tree have times of the same kind: the caller does not mix ticks and
// nanoseconds.
func (t *Tree) Add(rec *bootmodel.Recording) (costs []Cost, left int) {
	from, to, _ := rec.Window()
	return t.addWithin(rec, from, to)
}

// addWithin is Add for a boot that begins at from and ends at to, on its reference clock.
func (t *Tree) addWithin(rec *bootmodel.Recording, from, to float64) (costs []Cost, left int) {
	if len(rec.Clocks) == 0 {
		return nil, 0
	}
	t.Ticks, t.Instructions = !rec.Clocks[0].Known(), rec.CountsInstructions()
	t.boots++
	t.at = make([]int32, len(rec.Spans))
	for i, s := range rec.Spans {
		t.at[i] = -1
		if s.Charged {
			continue
		}
		if s.Clock != 0 && (t.Ticks || !rec.Clocks[s.Clock].Known()) {
			left++
			continue
		}
		parent := int32(-1)
		if s.Parent >= 0 {
			parent = t.at[s.Parent]
		}
		t.at[i] = t.nodeOf(parent, s)
	}
	return sweepSpans(rec, t.at, len(t.Nodes), from, to), left
}

func (t *Tree) nodeOf(parent int32, s bootmodel.Span) int32 {
	l, ok := t.labels[label{s.Name, s.Arg}]
	if !ok {
		l = int32(len(t.labels))
		t.labels[label{s.Name, s.Arg}] = l
	}
	n, ok := t.nodes[key{parent, l}]
	if !ok {
		n = int32(len(t.Nodes))
		t.nodes[key{parent, l}] = n
		t.Nodes = append(t.Nodes, Node{Name: s.Name, Arg: s.Arg, Parent: parent, Wait: s.Wait, label: l})
	}
	return n
}

// Path is the labels of node i and of all above it, the outermost first.
func (t *Tree) Path(i int) (path []string) {
	for at := int32(i); at >= 0; at = t.Nodes[at].Parent {
		path = append(path, t.Nodes[at].Label())
	}
	slices.Reverse(path)
	return path
}

// Links returns the children of every node as lists: first[i+1] is the first child of
// node i, next[c] the one after child c; -1 ends a list. first[0] begins the nodes
// without a parent.
func (t *Tree) Links() (first, next []int32) {
	first, next = make([]int32, len(t.Nodes)+1), make([]int32, len(t.Nodes))
	for i := range first {
		first[i] = -1
	}
	for i := len(t.Nodes) - 1; i >= 0; i-- {
		p := t.Nodes[i].Parent + 1
		next[i], first[p] = first[p], int32(i)
	}
	return first, next
}

// Row is all spans of one label, wherever they are.
type Row struct {
	Label string
	Cost
}

// Rows sums the boot that was added last by label, the greatest self time first. What waited
// and what did not end come last.
func (t *Tree) Rows(rec *bootmodel.Recording) []Row {
	of := make([]int32, len(t.at))
	rows := make([]Row, len(t.labels))
	for i, n := range t.at {
		if of[i] = n; n >= 0 {
			of[i] = t.Nodes[n].label
			rows[of[i]].Label = t.Nodes[n].Label()
		}
	}
	from, to, _ := rec.Window()
	for i, c := range sweepSpans(rec, of, len(rows), from, to) {
		rows[i].Cost = c
	}
	rows = slices.DeleteFunc(rows, func(r Row) bool { return r.Count == 0 })
	slices.SortFunc(rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(b.Self, a.Self), cmp.Compare(b.Wait+b.Open, a.Wait+a.Open), cmp.Compare(a.Label, b.Label))
	})
	return rows
}
