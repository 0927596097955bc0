// Package profile says where the time of boots went, and compares it.
//
// A Tree joins spans that have the same path: the labels of the span and of all that
// enclose it. So it has one node for a function that was called a thousand times at one
// place, and nodes of different boots can be compared.
package profile

import (
	"cmp"
	"slices"

	"bakeoff/measure/boot"
)

// Tree is the call tree of boots.
type Tree struct {
	// Nodes are in an order in which parents come before their children.
	Nodes []Node
	// Ticks tells that times are ticks of a clock whose frequency is unknown, Instructions
	// that they are instructions of the instruction clock. Otherwise they are nanoseconds.
	Ticks, Instructions bool

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
func (n Node) Label() string { return boot.Span{Name: n.Name, Arg: n.Arg}.Label() }

// Cost is what a path took in one boot, in nanoseconds or ticks.
type Cost struct {
	Count int // spans
	// Total is the time of the spans, Self that without what they enclose.
	Self, Total float64
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
func (t *Tree) Add(rec *boot.Recording) (costs []Cost, left int) {
	if len(rec.Clocks) == 0 {
		return nil, 0
	}
	t.Ticks, t.Instructions = !rec.Clocks[0].Known(), rec.CountsInstructions()
	t.boots++
	self := selfTimes(rec)
	at := make([]int32, len(rec.Spans)) // the node of each span
	costs = make([]Cost, len(t.Nodes))
	for i, s := range rec.Spans {
		at[i] = -1
		if s.Charged {
			continue
		}
		factor, ok := t.factor(rec.Clocks, s.Clock)
		if !ok {
			left++
			continue
		}
		parent := int32(-1)
		if s.Parent >= 0 {
			parent = at[s.Parent]
		}
		n := t.node(parent, s)
		at[i] = n
		if int(n) == len(costs) {
			costs = append(costs, Cost{})
		}
		costs[n].Count++
		costs[n].Self += float64(self[i]) * factor
		costs[n].Total += float64(s.End-s.Start) * factor
	}
	return costs, left
}

// selfTimes are those of the spans, if the charged ones are not there: a thread that waits
// then has the whole time of its wait as its own, and the work of the thread that it waited
// for counts once, where it was done.
func selfTimes(rec *boot.Recording) []int64 {
	self := rec.Self()
	for _, s := range rec.Spans {
		if s.Charged && s.Parent >= 0 && !rec.Spans[s.Parent].Charged {
			self[s.Parent] += rec.Ticks(s.End-s.Start, s.Clock, rec.Spans[s.Parent].Clock)
		}
	}
	return self
}

// factor converts ticks of a clock.
func (t *Tree) factor(clocks []boot.Clock, i int) (float64, bool) {
	if t.Ticks || !clocks[i].Known() {
		return 1, i == 0
	}
	return 1e9 / clocks[i].Hz, true
}

func (t *Tree) node(parent int32, s boot.Span) int32 {
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
	// Example is a node with this label: the one with the greatest self time.
	Example int
	Wait    bool
	// Cost has in Total the time of the spans that no span of the same label encloses:
	// recursion does not count twice.
	Cost
}

// Rows sums a boot by label, the greatest self time first.
func (t *Tree) Rows(costs []Cost) []Row {
	rows := make([]Row, len(t.labels))
	most := make([]float64, len(t.labels))
	within := t.recursive()
	for i, c := range costs {
		n := t.Nodes[i]
		r := &rows[n.label]
		if r.Count == 0 || c.Self > most[n.label] {
			r.Label, r.Example, r.Wait, most[n.label] = n.Label(), i, n.Wait, c.Self
		}
		r.Count += c.Count
		r.Self += c.Self
		if !within[i] {
			r.Total += c.Total
		}
	}
	rows = slices.DeleteFunc(rows, func(r Row) bool { return r.Count == 0 })
	slices.SortFunc(rows, func(a, b Row) int { return cmp.Or(cmp.Compare(b.Self, a.Self), cmp.Compare(a.Label, b.Label)) })
	return rows
}

// recursive reports for every node whether another one of the same label encloses it.
func (t *Tree) recursive() []bool {
	first, next := t.Links()
	out := make([]bool, len(t.Nodes))
	open := make([]int32, len(t.labels))
	// The walk needs no stack: a node knows its parent.
	at := first[0]
	for at >= 0 {
		n := t.Nodes[at]
		out[at] = open[n.label] > 0
		if first[at+1] >= 0 {
			open[n.label]++
			at = first[at+1]
			continue
		}
		for next[at] < 0 && t.Nodes[at].Parent >= 0 {
			at = t.Nodes[at].Parent
			open[t.Nodes[at].label]--
		}
		at = next[at]
	}
	return out
}
