package lock

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"strconv"
	"strings"
	"sync"
	"time"

	"bakeoff/base/safetext"
)

// Owner is the run or the command for which a process takes a lock.
type Owner struct {
	Run        string    `json:"run,omitempty"` // "" for a command that does not measure
	Controller string    `json:"controller,omitempty"`
	PID        int       `json:"pid,omitempty"` // on the controller
	User       string    `json:"user,omitempty"`
	Since      time.Time `json:"since,omitzero"`
	// Host is the lab file's name of the machine, as the controller reaches it.
	Host string `json:"host,omitempty"`
	// Token is different in every process.
	Token string `json:"token,omitempty"`
}

var token = sync.OnceValue(rand.Text)

// Me is this process as the owner of locks for a run.
func Me(run string) Owner {
	o := Owner{Run: run, PID: os.Getpid(), User: os.Getenv("SUDO_USER"), Since: time.Now().UTC(), Token: token()}
	o.Controller, _ = os.Hostname()
	if u, err := user.Current(); o.User == "" && err == nil {
		o.User = u.Username
	}
	return o
}

// Holder is the content of a lock file: the process that last took the lock. PID is 0
// if it is unknown. Owner is zero if the process did not say for whom it took the lock.
// Place is zero if an older program wrote the file.
type Holder struct {
	PID   int   `json:"pid"`
	Owner Owner `json:"owner,omitzero"`
	Place Place `json:"place,omitzero"`
}

// line is the second line of a lock file.
type line struct {
	Owner
	Place Place `json:"place,omitzero"`
}

// String describes the owner: "run r, started by ann on ctl as process 9 at
// 2026-01-02 03:04:05 UTC"; "" for an owner that is not known.
func (o Owner) String() string {
	if o.Token == "" {
		return ""
	}
	text := fmt.Sprintf("started by %s on %s as process %d at %s", cmp.Or(o.User, "an unknown user"), o.place(), o.PID,
		o.Since.UTC().Format("2006-01-02 15:04:05 UTC"))
	if o.Run != "" {
		text = "run " + o.Run + ", " + text
	}
	return safetext.Line(text)
}

func (o Owner) place() string { return cmp.Or(o.Controller, "an unknown machine") }

// Remedy says how to get the lock.
func (o Owner) Remedy() string {
	text := "wait for it to end"
	if o.Token != "" {
		text += fmt.Sprintf(", or stop process %d on %s", o.PID, safetext.Line(o.place()))
	}
	return text + ": two runs at the same time disturb each other"
}

// String says who holds the lock, and for whom.
func (h Holder) String() string {
	text := fmt.Sprintf("process %d measures on this host", h.PID)
	if owner := h.Owner.String(); owner != "" {
		text += " (" + owner + ")"
	}
	return text
}

func (h Holder) encode() []byte {
	text := strconv.AppendInt(nil, int64(h.PID), 10)
	text = append(text, '\n')
	if b, err := json.Marshal(line{h.Owner, h.Place}); err == nil && (line{h.Owner, h.Place}) != (line{}) {
		text = append(append(text, b...), '\n')
	}
	return text
}

// maxFile bounds what is read of a lock file, in bytes.
const maxFile = 16 << 10

// HolderOf reads a lock file.
func HolderOf(path string) Holder {
	f, err := os.Open(path)
	if err != nil {
		return Holder{}
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil || len(b) > maxFile {
		return Holder{}
	}
	return ParseHolder(b)
}

// ParseHolder reads the content of a lock file. The process ID is in the first line, its
// owner and place, which older programs do not write, in the second. What is damaged is
// unknown.
func ParseHolder(b []byte) (h Holder) {
	lines := strings.Split(string(b), "\n")
	if pid, err := strconv.Atoi(lines[0]); err == nil {
		h.PID = pid
	}
	var second line
	if len(lines) > 1 && json.Unmarshal([]byte(lines[1]), &second) == nil {
		h.Owner, h.Place = second.Owner, second.Place
	}
	return h
}

// HeldBy returns the process that holds the lock at path; nil if the lock is free, or if
// that is unknown (see Held).
func HeldBy(path string) *Holder {
	if path == "" || !Held(path) {
		return nil
	}
	return new(HolderOf(path))
}

// Refused reports whether err says that another process holds a lock. A channel carries
// only the text of an error.
func Refused(err error) bool {
	return errors.Is(err, ErrHeld) || err != nil && strings.Contains(err.Error(), ErrHeld.Error())
}
