// Package fault gives every error a class, so that code branches on what
// went wrong and never on the text of a message.
package fault

import (
	"errors"
	"fmt"
	"strings"
)

// Kind is the class of an error.
type Kind int

const (
	// Lab means that the laboratory itself failed. The whole block is void.
	// It is the zero value: an error without a class is ours.
	Lab Kind = iota
	// Subject means that what is being tested failed. That is a result: it
	// counts as the worst possible value.
	Subject
	// Unsupported means that a request is not possible here. bakeoff refuses it
	// before anything starts.
	Unsupported
	// Invalid means that a person's input is wrong.
	Invalid
	// NotFound means that something named does not exist.
	NotFound
)

// String returns the word used for the kind in journals and messages.
func (k Kind) String() string {
	if word, ok := words[k]; ok {
		return word
	}
	return "lab"
}

var words = map[Kind]string{Subject: "subject", Unsupported: "unsupported", Invalid: "invalid", NotFound: "not found"}

// Error is an error with a class.
type Error struct {
	Kind Kind
	// Op names the operation and its object: "qemu: create vm0".
	Op string
	// Fix says what to do: a command, a value. It may be empty.
	Fix string
	Err error
}

// Error returns "op: err", followed by "; fix" if one is known. It does not
// repeat op or fix if err already begins or ends with it: a layer cannot know
// what the layer below it is called.
func (e *Error) Error() string {
	s := e.Op
	if e.Err != nil {
		cause := e.Err.Error()
		if s == "" || cause == s || strings.HasPrefix(cause, s+": ") {
			s = cause
		} else {
			s += ": " + cause
		}
	}
	if fix := "; " + e.Fix; e.Fix != "" && !strings.HasSuffix(s, fix) {
		s += fix
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// New returns an error of kind k. format and args are as for fmt.Errorf, %w
// included.
func New(k Kind, format string, args ...any) error {
	return &Error{Kind: k, Err: fmt.Errorf(format, args...)}
}

// Wrap returns err under the operation op with the class k, or nil when err
// is nil.
func Wrap(k Kind, op string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Kind: k, Op: op, Err: err}
}

// Op returns err under the operation op and keeps its class; nil stays nil.
func Op(op string, err error) error {
	return Wrap(Of(err), op, err)
}

// WithFix returns err with a sentence that says what to do.
func WithFix(err error, fix string) error {
	if err == nil {
		return nil
	}
	return &Error{Kind: Of(err), Err: err, Fix: fix}
}

// Of returns the class of the outermost classified error in err's chain. For an
// error without a class it returns Lab.
func Of(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return Lab
}

// Is reports whether err is not nil and has class k.
func Is(err error, k Kind) bool { return err != nil && Of(err) == k }

// Reason returns the text of err without its advice, which Fix returns.
func Reason(err error) string { return strings.TrimSuffix(err.Error(), "; "+Fix(err)) }

// Fix returns the first advice in err's chain, or "".
func Fix(err error) string {
	for e, ok := errors.AsType[*Error](err); ok; e, ok = errors.AsType[*Error](e.Err) {
		if e.Fix != "" {
			return e.Fix
		}
	}
	return ""
}
