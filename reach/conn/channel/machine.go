package channel

import (
	"context"

	"bakeoff/base/facts"
	"bakeoff/base/fault"
	"bakeoff/base/lock"
	"bakeoff/base/unit"
	"bakeoff/reach/conn"
)

// The functions of an agent that serves a whole machine instead of one guest:
// see Conn.Machine, Conn.Counters and Files.
const (
	FuncMachine  = "machine"
	FuncCounters = "counters"
	FuncWrite    = "write"
	FuncMkdir    = "mkdir"
	FuncRmdir    = "rmdir"
	FuncReadDir  = "readdir"
	FuncRemove   = "remove"
	FuncSettle   = "settle"
	FuncKeep     = "keep"
	FuncLock     = "lock"
	FuncUnlock   = "unlock"
	FuncHolder   = "holder"
)

// Machine is how an agent describes its machine.
type Machine struct {
	GOOS   string `json:"goos"`
	GOARCH string `json:"goarch"`
	UID    int    `json:"uid"`
	PID    int    `json:"pid"` // of the agent
	// CPUs are the ones that the agent may use, in ascending order.
	CPUs []int `json:"cpus"`
	// Memory is the size of its memory; 0 if unknown.
	Memory unit.Bytes `json:"memory_bytes"`
	SHA256 string     `json:"sha256"` // of the agent
	// Hardware distinguishes this machine from any other; see
	// probe.ReadHardware.
	Hardware facts.Hardware `json:"hardware"`
	// Boot is a text that changes with each boot.
	Boot string `json:"boot"`
	// HostLock is the file of the lock that a local run of the same user takes; see
	// lock.OfMachine.
	HostLock string `json:"host_lock"`
}

// Machine returns the agent's description of its machine.
func (c *Conn) Machine(ctx context.Context) (Machine, error) {
	var m Machine
	err := c.Call(ctx, FuncMachine, nil, &m)
	return m, err
}

// CPURequest are the parameters of FuncCounters and FuncSettle.
type CPURequest struct {
	CPUs []int `json:"cpus"` // empty: all of them
}

// Counters reads the counters of the machine, for these CPUs.
func (c *Conn) Counters(ctx context.Context, cpus []int) (facts.Counters, error) {
	var out facts.Counters
	err := c.Call(ctx, FuncCounters, CPURequest{cpus}, &out)
	return out, err
}

// Settle moves the agent, and what it starts from then on, to these CPUs.
func (c *Conn) Settle(ctx context.Context, cpus []int) error {
	return c.Call(ctx, FuncSettle, CPURequest{cpus}, nil)
}

// FileRequest are the parameters of the functions on files.
type FileRequest struct {
	Path string `json:"path"` // absolute
	Data []byte `json:"data,omitempty"`
	// Owner is for FuncLock.
	Owner lock.Owner `json:"owner,omitzero"`
}

// writeLimit keeps written data, in base64, within one frame.
const writeLimit = 512 << 10

// Files reads and writes small files through an agent that serves a machine,
// without starting a program for each. It implements conn.Files.
type Files struct{ Conn *Conn }

var _ conn.Files = Files{}

// ReadFile returns a file of at most conn.FileLimit bytes.
func (f Files) ReadFile(ctx context.Context, path string) ([]byte, error) {
	var out limited
	if err := f.Conn.Pull(ctx, path, &out); err != nil {
		return nil, err
	}
	return out.b, nil
}

// limited holds up to conn.FileLimit bytes.
type limited struct{ b []byte }

func (l *limited) Write(p []byte) (int, error) {
	if len(l.b)+len(p) > conn.FileLimit {
		return 0, fault.New(fault.Lab, "the file is longer than %d bytes", conn.FileLimit)
	}
	l.b = append(l.b, p...)
	return len(p), nil
}

// WriteFile writes to an existing file in one write.
func (f Files) WriteFile(ctx context.Context, path string, data []byte) error {
	if len(data) > writeLimit {
		return fault.New(fault.Invalid, "write %s: %d bytes; the limit is %d", path, len(data), writeLimit)
	}
	return f.Conn.Call(ctx, FuncWrite, FileRequest{Path: path, Data: data}, nil)
}

// Mkdir makes one directory.
func (f Files) Mkdir(ctx context.Context, path string) error {
	return f.Conn.Call(ctx, FuncMkdir, FileRequest{Path: path}, nil)
}

// Rmdir removes one empty directory.
func (f Files) Rmdir(ctx context.Context, path string) error {
	return f.Conn.Call(ctx, FuncRmdir, FileRequest{Path: path}, nil)
}

// ReadDir returns the names in a directory, sorted.
func (f Files) ReadDir(ctx context.Context, path string) ([]string, error) {
	var names []string
	err := f.Conn.Call(ctx, FuncReadDir, FileRequest{Path: path}, &names)
	return names, err
}

// Remove removes path and everything in it, without following links. A path
// that does not exist is not an error.
func (f Files) Remove(ctx context.Context, path string) error {
	return f.Conn.Call(ctx, FuncRemove, FileRequest{Path: path}, nil)
}

// Keep writes a small file atomically and syncs it.
func (f Files) Keep(ctx context.Context, path string, data []byte) error {
	if len(data) > writeLimit {
		return fault.New(fault.Invalid, "keep %s: %d bytes; the limit is %d", path, len(data), writeLimit)
	}
	return f.Conn.Call(ctx, FuncKeep, FileRequest{Path: path, Data: data}, nil)
}

// Lock makes the agent take a lock of the machine and hold it until it ends, or
// until Unlock. If another process holds it, the error is of kind
// fault.Unsupported and names the process and its run. A process that holds it for the
// same controller, but not for the same connection, shares it.
func (f Files) Lock(ctx context.Context, path string, owner lock.Owner) error {
	return f.Conn.Call(ctx, FuncLock, FileRequest{Path: path, Owner: owner}, nil)
}

// Unlock releases the lock. If another run took a shared lock in the meantime, the error
// names it; see lock.Refused.
func (f Files) Unlock(ctx context.Context, path string) error {
	return f.Conn.Call(ctx, FuncUnlock, FileRequest{Path: path}, nil)
}

// Holder returns the process that holds the lock at path, or nil if the lock is free.
func (f Files) Holder(ctx context.Context, path string) (*lock.Holder, error) {
	var h *lock.Holder
	err := f.Conn.Call(ctx, FuncHolder, FileRequest{Path: path}, &h)
	return h, err
}
