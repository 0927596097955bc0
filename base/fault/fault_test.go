package fault

import (
	"errors"
	"io"
	"testing"
)

// Layers do not know what those below them were called: a message says a thing
// once.
func TestWhatIsSaidOnce(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{Op("a", Op("b", io.EOF)), "a: b: EOF"},
		{Op("a", Op("a", io.EOF)), "a: EOF"},
		{Op("a", Op("b", Op("b", Op("b", io.EOF)))), "a: b: EOF"},
		{Op("a: b", New(Lab, "a: b: c")), "a: b: c"},
		{Op("a", Op("ab", io.EOF)), "a: ab: EOF"},
		{Op("EOF", io.EOF), "EOF"},
		{WithFix(WithFix(io.EOF, "write more"), "write more"), "EOF; write more"},
		{WithFix(Op("a", WithFix(io.EOF, "write more")), "or less"), "a: EOF; write more; or less"},
		{&Error{Op: "a"}, "a"},
		{&Error{Op: "a", Fix: "b"}, "a; b"},
	} {
		if got := c.err.Error(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// An error keeps its class and its cause in every message.
func TestClassAndCauseAreKept(t *testing.T) {
	err := WithFix(Op("a", Wrap(Unsupported, "b", io.EOF)), "install it")
	if Of(err) != Unsupported || !Is(err, Unsupported) || !errors.Is(err, io.EOF) || Fix(err) != "install it" {
		t.Errorf("%v is %v, fix %q", err, Of(err), Fix(err))
	}
	if Of(io.EOF) != Lab || Is(nil, Lab) || Op("a", nil) != nil || Wrap(Lab, "a", nil) != nil || WithFix(nil, "x") != nil {
		t.Error("an error without a class is the laboratory's, and none is none")
	}
	if Of(Wrap(Lab, "a", New(Subject, "b"))) != Lab {
		t.Error("the outermost class counts")
	}
}

func TestReasonLeavesOutTheAdvice(t *testing.T) {
	plain := New(Invalid, "it is wrong")
	for want, err := range map[string]error{"it is wrong": WithFix(plain, "write another"),
		"op: it is wrong": Op("op", WithFix(plain, "write another")), "x": errors.New("x")} {
		if got := Reason(err); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
