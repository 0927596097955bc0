package nsenter

import (
	"errors"
	"io"
	"os"
	"strconv"
	"syscall"
)

// maxStart bounds a request, in bytes: the kernel accepts an argument vector of
// 2 MiB by default, and of at most 6 MiB (execve(2)).
const maxStart = 6 << 20

// Request asks a container's init process for a program, with its directory and
// environment variables, or for the clock.
type Request struct {
	Clock bool   // the clock only
	Dir   string // "" is that of the init process
	Clear bool   // no variables of the init process
	Env   []string
	Argv  []string
}

// clockRequest is the text of a request that asks for the clock.
const clockRequest = "clock"

// Text encodes a request: its parts, separated by zero bytes, which none of
// them can contain.
func (v Request) Text() string {
	if v.Clock {
		return clockRequest
	}
	how := "keep"
	if v.Clear {
		how = "clear"
	}
	text := v.Dir + "\x00" + how + "\x00" + strconv.Itoa(len(v.Env))
	for _, part := range [][]string{v.Env, v.Argv} {
		for _, s := range part {
			text += "\x00" + s
		}
	}
	return text
}

// parseRequest parses the result of Text.
func parseRequest(text string) (v Request, err error) {
	if text == clockRequest {
		return Request{Clock: true}, nil
	}
	parts := split(text, 0)
	if len(parts) < 4 {
		return v, errors.New("container-init: the request contains no program")
	}
	n, err := strconv.Atoi(parts[2])
	if err != nil || n < 0 || n > len(parts)-4 || parts[1] != "keep" && parts[1] != "clear" {
		return v, errors.New("container-init: invalid request " + quoted(text[:min(len(text), 40)]))
	}
	v = Request{Dir: parts[0], Clear: parts[1] == "clear", Env: parts[3 : 3+n], Argv: parts[3+n:]}
	if v.Argv[0] == "" {
		return v, errors.New("container-init: no program given")
	}
	return v, nil
}

// readRequest reads a request of size bytes.
func readRequest(size uint32, from io.Reader) (Request, error) {
	if size > maxStart {
		return Request{}, errors.New("container-init: the request has " + strconv.Itoa(int(size)) +
			" bytes; the limit is " + strconv.Itoa(maxStart))
	}
	text := make([]byte, size)
	if _, err := io.ReadFull(from, text); err != nil {
		return Request{}, wrapFailure("container-init: the request", err)
	}
	return parseRequest(string(text))
}

// environ is the program's environment. Of two values of a name the last one
// counts.
func (v Request) environ() []string {
	var own []string
	if !v.Clear {
		own = os.Environ()
	}
	return append(own, v.Env...)
}

// program is the file to execute: Argv[0], or the file with this name in the
// PATH of the program's environment.
func (v Request) program() (string, error) {
	search := ""
	for _, e := range v.environ() {
		if name, value, _ := cut(e, '='); name == "PATH" {
			search = value
		}
	}
	return findProgram(v.Argv[0], search)
}

// start starts the program with the client's streams, in a session of its own.
func (v Request) start(r *Reaper, streams []int) (*Child, error) {
	if s, err := os.Stat(v.Dir); v.Dir != "" && (err != nil || !s.IsDir()) {
		return nil, errors.New("working directory " + v.Dir + " does not exist")
	}
	file, err := v.program()
	if err != nil {
		return nil, err
	}
	var files []uintptr
	for _, fd := range streams {
		files = append(files, uintptr(fd))
	}
	return r.Start(file, v.Argv, &syscall.ProcAttr{Dir: v.Dir, Files: files, Env: v.environ(),
		Sys: &syscall.SysProcAttr{Setsid: true}})
}

// response is the result of a request.
type response struct {
	code   int    // of the program, or of enter if it did not start
	signal int    // that ended it; 0: none
	err    string // why it did not start
	clock  int64  // nanoseconds since the start of the init process
}

// refusal answers a request that failed.
func refusal(err error) response {
	return response{code: Code(AsMissing(err)), err: err.Error()}
}

// json encodes a response. Package encoding/json initializes late.
func (r response) json() []byte {
	out := `{"code":` + strconv.Itoa(r.code)
	if r.signal != 0 {
		out += `,"signal":` + strconv.Itoa(r.signal)
	}
	if r.err != "" {
		out += `,"error":"` + escaped(r.err) + `"`
	}
	if r.clock != 0 {
		out += `,"clock_ns":` + strconv.FormatInt(r.clock, 10)
	}
	return []byte(out + "}")
}

// escaped is the inside of a string of JSON (RFC 8259, section 7). Bytes that
// are not UTF-8 stay; readers replace them.
func escaped(s string) string {
	const digits = "0123456789abcdef"
	var out []byte
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			out = append(out, '\\', c)
		case c < ' ':
			out = append(out, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		default:
			out = append(out, c)
		}
	}
	return string(out)
}
