package boot

import (
	"bytes"
	"encoding/json"
	"io"

	"bakeoff/base/bootmodel"
	"bakeoff/base/fault"
	"bakeoff/base/strictjson"
)

// Write writes a recording as JSON, in one line.
func Write(w io.Writer, r bootmodel.Recording) error {
	r.Schema = bootmodel.Schema
	if r.Tracks == nil {
		r.Tracks = []bootmodel.Track{}
	}
	if r.Spans == nil {
		r.Spans = []bootmodel.Span{}
	}
	if r.Marks == nil {
		r.Marks = []bootmodel.Mark{}
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(r)
}

// IsRecording reports whether a file that begins with head holds a recording.
func IsRecording(head []byte) bool {
	head = bytes.TrimLeft(head, " \t\r\n")
	return bytes.HasPrefix(head, []byte("{")) && bytes.Contains(head[:min(len(head), 256)],
		[]byte(`"bakeoff/boot-recording/`))
}

// Parse reads a recording that Write wrote. Errors call it name and are of kind
// fault.Invalid.
func Parse(name string, data []byte) (bootmodel.Recording, error) {
	if err := CheckSize(name, data); err != nil {
		return bootmodel.Recording{}, err
	}
	var r bootmodel.Recording
	if err := strictjson.Decode(data, &r); err != nil {
		return bootmodel.Recording{}, fault.Wrap(fault.Invalid, name, err)
	}
	if err := bootmodel.Check(name, r); err != nil {
		return bootmodel.Recording{}, err
	}
	return r, nil
}
