package fault

import (
	"errors"
	"fmt"
	"strings"
)

// listed bounds the messages that a List keeps.
const listed = 20

// List collects everything that is wrong in a file. It keeps the first 20 messages
// and counts the others. The zero value is empty.
type List struct {
	kept []string
	more int
}

// Add notes a message that begins with where, such as "file:3: ".
func (l *List) Add(where, format string, args ...any) {
	if len(l.kept) >= listed {
		l.more++
		return
	}
	l.kept = append(l.kept, where+fmt.Sprintf(format, args...))
}

// Messages returns the messages that the list keeps, and how many others there were.
func (l *List) Messages() (kept []string, more int) { return l.kept, l.more }

// Empty reports whether nothing is wrong.
func (l *List) Empty() bool { return len(l.kept) == 0 }

// Err returns an error of kind Invalid with a line for each message, or nil if there
// are none.
func (l *List) Err() error {
	if l.Empty() {
		return nil
	}
	s := strings.Join(l.kept, "\n")
	if l.more > 0 {
		s += fmt.Sprintf("\nand %d more", l.more)
	}
	return Wrap(Invalid, "", errors.New(s))
}
