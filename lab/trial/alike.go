package trial

import (
	"errors"
	"fmt"
	"time"

	"bakeoff/base/lazy"
)

// A block that a failure of the lab voids is replaced by a spare one, because most such
// failures pass. One that comes again in the same way each time does not, and would
// spend the whole budget.
const (
	// maxAlike is how many blocks in a row may be void for one cause. It equals the
	// trials after which a contender that only fails leaves the run.
	maxAlike = 4
	// maxAlikeTime is how long a cause may take to pass that may be one of the moment: a
	// lost connection, a busy machine. The output of a program that cannot be read is
	// none.
	maxAlikeTime = 2 * time.Minute
)

// voided is the error of the trial that voids its block.
type voided struct {
	cell, contender string
	error
}

func (v voided) Error() string { return v.cell + " on " + v.contender + ": " + v.error.Error() }

func (v voided) Unwrap() error { return v.error }

// unread is the error of a parser: the program ran, and its output cannot be read.
type unread struct{ error }

func (u unread) Unwrap() error { return u.error }

// alike counts the blocks in a row that are void for one cause.
type alike struct {
	cause     string // without what differs from block to block
	blocks    int
	since     time.Time // the first of them ended
	contender string    // in whose trials all of them became void; "" if there is none
}

// changing matches a word that may differ between two reports of one cause: an
// identifier, a time, a count.
var changing = lazy.Compile(`\S*[0-9]\S*`)

// count notes a block that ended with err, and returns whether its cause came too often.
func (a *alike) count(err error, now time.Time) bool {
	cause, contender := err.Error(), ""
	if v, ok := errors.AsType[voided](err); ok {
		cause, contender = v.cell+": "+v.error.Error(), v.contender
	}
	if cause = changing.ReplaceAllString(cause, "#"); cause != a.cause {
		*a = alike{cause: cause, since: now, contender: contender}
	}
	if a.contender != contender {
		a.contender = ""
	}
	a.blocks++
	_, output := errors.AsType[unread](err)
	return a.blocks >= maxAlike && (output || now.Sub(a.since) >= maxAlikeTime)
}

// endAlike takes the contender out of the run whose trials made every block void in the
// same way, or ends the run if that is the baseline or no single contender. reason is
// that of the last of these blocks.
func (r *runner) endAlike(err error, reason string) error {
	if !r.alike.count(err, r.Now()) {
		return nil
	}
	text := fmt.Sprintf("%d blocks in a row were void for the same cause: %s", r.alike.blocks, reason)
	name := r.alike.contender
	r.alike = alike{}
	if name == "" || name == r.Plan.Baseline || name == r.Plan.Twin {
		r.hopeless = text
		return nil
	}
	s, err := r.side(name)
	if err != nil {
		return err
	}
	return r.dismiss(s, text)
}
