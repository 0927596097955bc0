package unixbench

import (
	"context"
	"fmt"

	"bakeoff/reach/loop"
)

// A pass of Dhrystone 2 does what a systems program of its day did: about half
// assignments, a third control statements, the rest calls; on numbers,
// characters, two records that point at each other, two arrays, and strings of
// thirty characters. Weicker chose every statement so that a correct compiler
// cannot omit any of it, and published the final values of all variables, which
// are verified after every batch. Procedures are not inlined, as his
// measurement rules require.

// kind is the enumeration of five values that records and branches use.
type kind int

const (
	first kind = iota
	second
	third
	fourth
	fifth
)

// record is Weicker's record with its first variant.
type record struct {
	next    *record
	variant kind
	kind    kind
	number  int
	text    string
}

// state has the global variables, and the final local variables of a pass.
type state struct {
	number           int
	flag             bool
	letter1, letter2 byte
	array1           [50]int
	array2           [50][50]int
	record, other    *record

	local1, local2, local3 int
	localKind              kind
	text1, text2           string
}

// As in the definition, the strings have thirty characters and differ at the
// twentieth.
const (
	textSome   = "BAKEOFF EXPERIMENT, SOME LINE."
	textFirst  = "BAKEOFF EXPERIMENT, 1ST LINE.."
	textSecond = "BAKEOFF EXPERIMENT, 2ND LINE.."
	textThird  = "BAKEOFF EXPERIMENT, 3RD LINE.."
)

// dhrystone is the test that runs passes of Dhrystone.
func dhrystone(context.Context, loop.Env) (test, error) {
	s := begin()
	passes := 0
	return test{
		do: func(n int) error {
			for i := range n {
				s.pass(i + 1)
			}
			passes += n
			return s.verify(passes)
		},
		check: func() (string, error) { return fmt.Sprintf("all variables are right after %d passes", passes), nil },
		close: func() {},
	}, nil
}

func begin() *state {
	s := &state{other: &record{}}
	s.record = &record{next: s.other, variant: first, kind: third, number: 40, text: textSome}
	s.text1 = textFirst
	s.array2[8][7] = 10
	return s
}

// pass is one pass; run is its number.
func (s *state) pass(run int) {
	s.letterA()
	s.letterB()
	n1, n2, n3 := 2, 3, 0
	s.text2 = textSecond
	s.localKind = second
	s.flag = !s.after(s.text1, s.text2)
	for n1 < n2 {
		n3 = 5*n1 - n2
		add(n1, n2, &n3)
		n1++
	}
	s.arrays(&s.array1, &s.array2, n1, n3)
	s.records(s.record)
	for c := byte('A'); c <= s.letter2; c++ {
		if s.localKind == s.same(c, 'C') {
			// Never reached: 'A' and 'B' are not 'C'.
			s.choose(first, &s.localKind)
			s.text2, n2, s.number = textThird, run, run
		}
	}
	n2 *= n1
	n1 = n2 / n3
	n2 = 7*(n2-n3) - n1
	s.assign(&n1)
	s.local1, s.local2, s.local3 = n1, n2, n3
}

// records is procedure 1.
//
//go:noinline
func (s *state) records(r *record) {
	next := r.next
	*r.next = *s.record
	r.number = 5
	next.number = r.number
	next.next = r.next
	s.link(&next.next)
	if next.variant == first {
		next.number = 6
		s.choose(r.kind, &next.kind)
		next.next = s.record.next
		add(next.number, 10, &next.number)
	} else {
		*r = *r.next
	}
}

// assign is procedure 2.
//
//go:noinline
func (s *state) assign(n *int) {
	local := *n + 10
	for done := false; !done; {
		if s.letter1 == 'A' {
			local--
			*n = local - s.number
			done = true
		}
	}
}

// link is procedure 3.
//
//go:noinline
func (s *state) link(r **record) {
	if s.record != nil {
		*r = s.record.next
	}
	add(10, s.number, &s.record.number)
}

// letterB is procedure 4, letterA procedure 5.
//
//go:noinline
func (s *state) letterB() {
	isA := s.letter1 == 'A'
	s.flag = isA || s.flag
	s.letter2 = 'B'
}

//go:noinline
func (s *state) letterA() {
	s.letter1 = 'A'
	s.flag = false
}

// choose is procedure 6.
//
//go:noinline
func (s *state) choose(in kind, out *kind) {
	*out = in
	if !isThird(in) {
		*out = fourth
	}
	switch in {
	case first:
		*out = first
	case second:
		if s.number > 100 {
			*out = first
		} else {
			*out = fourth
		}
	case third:
		*out = second
	case fourth:
	case fifth:
		*out = third
	}
}

// add is procedure 7.
//
//go:noinline
func add(a, b int, sum *int) { *sum = b + a + 2 }

// arrays is procedure 8.
//
//go:noinline
func (s *state) arrays(one *[50]int, two *[50][50]int, a, b int) {
	at := a + 5
	one[at] = b
	one[at+1] = one[at]
	one[at+30] = at
	for i := at; i <= at+1; i++ {
		two[at][i] = at
	}
	two[at][at-1]++
	two[at+20][at] = one[at]
	s.number = 5
}

// same is function 1.
//
//go:noinline
func (s *state) same(a, b byte) kind {
	if c := a; c != b {
		return first
	}
	s.letter1 = a
	return second
}

// after is function 2: whether one text comes after another.
//
//go:noinline
func (s *state) after(a, b string) bool {
	at, letter := 2, byte('A')
	for at <= 2 {
		if s.same(a[at], b[at+1]) == first {
			letter = 'A'
			at++
		}
	}
	if letter >= 'W' && letter < 'Z' {
		at = 7
	}
	if letter == 'R' {
		return true
	}
	if a > b {
		s.number = at + 7
		return true
	}
	return false
}

// isThird is function 3.
//
//go:noinline
func isThird(k kind) bool { return k == third }

// verify compares all variables with their values after this number of passes.
func (s *state) verify(passes int) error {
	for _, v := range []struct {
		name      string
		got, want any
	}{
		{"the number", s.number, 5}, {"the flag", s.flag, true},
		{"the first letter", s.letter1, byte('A')}, {"the second letter", s.letter2, byte('B')},
		{"element 8 of the first array", s.array1[8], 7},
		{"element 8, 7 of the second array", s.array2[8][7], passes + 10},
		{"the variant of the record", s.record.variant, first}, {"the kind of the record", s.record.kind, third},
		{"the number of the record", s.record.number, 17}, {"the text of the record", s.record.text, textSome},
		{"the variant of the other record", s.other.variant, first}, {"the kind of the other record", s.other.kind, second},
		{"the number of the other record", s.other.number, 18}, {"the text of the other record", s.other.text, textSome},
		{"both records point at the other", s.record.next == s.other && s.other.next == s.other, true},
		{"the first local", s.local1, 5}, {"the second local", s.local2, 13}, {"the third local", s.local3, 7},
		{"the local kind", s.localKind, second},
		{"the first text", s.text1, textFirst}, {"the second text", s.text2, textSecond},
	} {
		if v.got != v.want {
			return loop.Mismatch(fmt.Sprintf("%s after %d passes", v.name, passes), v.got, v.want)
		}
	}
	return nil
}
