package qemu

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxLine bounds one object from QEMU's monitor, in bytes.
const maxLine = 1 << 20

// MonitorError is QEMU's refusal of a command.
type MonitorError struct {
	Class string `json:"class"`
	Desc  string `json:"desc"`
}

func (e *MonitorError) Error() string { return e.Desc + " (" + e.Class + ")" }

// errClosed is the error of a command whose connection ended.
var errClosed = errors.New("the monitor's connection has ended")

// message is any object from QEMU.
type message struct {
	QMP *struct {
		Version struct {
			QEMU    struct{ Major, Minor, Micro int } `json:"qemu"`
			Package string                            `json:"package"`
		} `json:"version"`
	} `json:"QMP"`
	Event  string          `json:"event"`
	ID     *int            `json:"id"`
	Return json.RawMessage `json:"return"`
	Error  *MonitorError   `json:"error"`
}

// version is that of QEMU in its greeting: "7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)".
func (m message) version() string {
	v := m.QMP.Version
	s := fmt.Sprintf("%d.%d.%d", v.QEMU.Major, v.QEMU.Minor, v.QEMU.Micro)
	if v.Package != "" {
		s += " (" + v.Package + ")"
	}
	return s
}

// mostEarly bounds the messages before the greeting: QEMU may write an event that happens at
// that moment to a new connection first, as if the earlier connection still existed.
const mostEarly = 64

// executeOn runs one command of the QEMU Machine Protocol on a new connection, which it
// closes: JSON objects, one per line. It returns QEMU's version and ignores events.
// arguments and result are JSON values or nil. If QEMU refuses the command, the error is a
// *MonitorError.
//
// Source: QEMU, docs/interop/qmp-spec.rst.
func executeOn(ctx context.Context, rw io.ReadWriteCloser, command string,
	arguments, result any) (version string, err error) {
	defer rw.Close()
	defer context.AfterFunc(ctx, func() { rw.Close() })()
	failed := func(op string, err error) error {
		if err == io.EOF {
			err = errClosed
		}
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return fmt.Errorf("qmp: %s: %w", op, err)
	}
	in := bufio.NewReaderSize(rw, 4<<10)
	m, err := readMessage(in)
	for n := 0; err == nil && m.QMP == nil && m.Event != "" && n < mostEarly; n++ {
		m, err = readMessage(in)
	}
	if err == nil && m.QMP == nil {
		err = errors.New("this is not a QEMU monitor")
	}
	if err != nil {
		return "", failed("greeting", err)
	}
	for id, command := range []struct {
		name              string
		arguments, result any
	}{{"qmp_capabilities", nil, nil}, {command, arguments, result}} {
		if err := exchange(rw, in, id+1, command.name, command.arguments, command.result); err != nil {
			return m.version(), failed(command.name, err)
		}
	}
	return m.version(), nil
}

// exchange sends a command and reads its answer.
func exchange(out io.Writer, in *bufio.Reader, id int, command string, arguments, result any) error {
	text, err := json.Marshal(struct {
		Execute   string `json:"execute"`
		Arguments any    `json:"arguments,omitempty"`
		ID        int    `json:"id"`
	}{command, arguments, id})
	if err == nil {
		_, err = out.Write(append(text, '\n'))
	}
	for err == nil {
		var m message
		switch m, err = readMessage(in); {
		case err != nil || m.ID == nil || *m.ID != id: // an event
		case m.Error != nil:
			return m.Error
		case result == nil:
			return nil
		default:
			return json.Unmarshal(m.Return, result)
		}
	}
	return err
}

// readMessage reads one line.
func readMessage(in *bufio.Reader) (message, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > maxLine {
			return message{}, fmt.Errorf("the monitor sent a line of more than %d bytes", maxLine)
		}
		if err == bufio.ErrBufferFull {
			continue
		}
		if err != nil {
			return message{}, err
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			break
		}
	}
	var m message
	err := json.Unmarshal(line, &m)
	return m, err
}
