package codec

// code is a Huffman code: for each symbol its length in bits (0 if unused) and
// its bits in the order of writing.
type code struct {
	len  []uint8
	bits []uint16
	last int // the last symbol that has a code
}

// node is a symbol or an inner node of the tree.
type node struct {
	freq   int
	depth  uint8
	parent int
}

// build assigns codes to the symbols of freq as zlib does, including its
// tie-breaking and its way to shorten codes longer than most bits.
//
// Source: RFC 1951, 3.2.2, for the code; gen_bitlen in zlib's trees.c for the
// lengths.
func build(freq []int, most int) code {
	n := len(freq)
	c := code{len: make([]uint8, n), bits: make([]uint16, n), last: -1}
	nodes := make([]node, n, 2*n)
	h := heap{nodes: &nodes}
	for s, f := range freq {
		nodes[s].freq = f
		if f > 0 {
			h.items = append(h.items, s)
			c.last = s
		}
	}
	// The format requires two codes, even if one or none is used.
	for len(h.items) < 2 {
		s := 0
		if c.last < 2 {
			c.last++
			s = c.last
		}
		nodes[s].freq = 1
		h.items = append(h.items, s)
	}
	for i := len(h.items)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
	var order []int // ever more frequent
	for len(h.items) > 1 {
		a := h.pop()
		b := h.items[0]
		order = append(order, a, b)
		nodes = append(nodes, node{freq: nodes[a].freq + nodes[b].freq, depth: max(nodes[a].depth, nodes[b].depth) + 1})
		in := len(nodes) - 1
		nodes[a].parent, nodes[b].parent = in, in
		h.items[0] = in
		h.down(0)
	}
	order = append(order, h.items[0])
	c.lengths(nodes, order, n, most)
	c.assign(most)
	return c
}

// lengths computes the length of every symbol from the tree.
func (c *code) lengths(nodes []node, order []int, n, most int) {
	depth := make([]int, len(nodes))
	count := make([]int, most+1)
	over := 0
	for i := len(order) - 1; i >= 0; i-- {
		v := order[i]
		d := 0
		if i < len(order)-1 {
			if d = depth[nodes[v].parent] + 1; d > most {
				d, over = most, over+1
			}
		}
		depth[v] = d
		if v < n {
			c.len[v] = uint8(d)
			count[d]++
		}
	}
	if over <= 0 {
		return
	}
	for ; over > 0; over -= 2 {
		d := most - 1
		for count[d] == 0 {
			d--
		}
		count[d]--
		count[d+1] += 2
		count[most]--
	}
	i := 0
	for d := most; d > 0; d-- {
		for k := count[d]; k > 0; {
			v := order[i]
			i++
			if v >= n {
				continue
			}
			c.len[v] = uint8(d)
			k--
		}
	}
}

// assign numbers the codes: shorter ones first, then in order of symbols.
func (c *code) assign(most int) {
	first := make([]uint16, most+1)
	count := make([]uint16, most+1)
	for _, l := range c.len {
		if l > 0 {
			count[l]++
		}
	}
	var at uint16
	for l := 1; l <= most; l++ {
		at = (at + count[l-1]) << 1
		first[l] = at
	}
	for s, l := range c.len {
		if l > 0 {
			c.bits[s] = reverse(first[l], l)
			first[l]++
		}
	}
}

func reverse(v uint16, n uint8) uint16 {
	var r uint16
	for ; n > 0; n-- {
		r = r<<1 | v&1
		v >>= 1
	}
	return r
}

// heap has the least frequent node first; of equal ones, the shallower.
type heap struct {
	nodes *[]node
	items []int
}

func (h *heap) less(a, b int) bool {
	n := *h.nodes
	return n[a].freq < n[b].freq || n[a].freq == n[b].freq && n[a].depth <= n[b].depth
}

func (h *heap) down(k int) {
	v := h.items[k]
	for j := 2*k + 1; j < len(h.items); j = 2*k + 1 {
		if j+1 < len(h.items) && h.less(h.items[j+1], h.items[j]) {
			j++
		}
		if h.less(v, h.items[j]) {
			break
		}
		h.items[k] = h.items[j]
		k = j
	}
	h.items[k] = v
}

func (h *heap) pop() int {
	v := h.items[0]
	last := len(h.items) - 1
	h.items[0] = h.items[last]
	h.items = h.items[:last]
	h.down(0)
	return v
}
