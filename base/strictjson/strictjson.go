// Package strictjson decodes JSON that bakeoff's own programs wrote: journals,
// plans and the raw output of workloads. Anything that does not belong there is
// an error, because a field that is silently dropped could change a result.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Decode decodes data, which holds exactly one JSON value, into v. A field that
// v does not have and anything but white space after the value are errors.
func Decode(data []byte, v any) error {
	var d Decoder
	return d.Decode(data, v)
}

// A Decoder decodes one value after the other and uses its buffer again, which many
// short values need. Its zero value is ready.
type Decoder struct {
	in  bytes.Reader
	dec *json.Decoder
}

// Decode does what the function Decode does.
func (d *Decoder) Decode(data []byte, v any) error {
	if d.dec == nil {
		d.dec = json.NewDecoder(&d.in)
		d.dec.DisallowUnknownFields()
	}
	d.in.Reset(data)
	err := d.dec.Decode(v)
	if err == nil && d.in.Len() == 0 && onlyWhiteSpace(d.dec.Buffered()) {
		return nil
	}
	rest := err == nil && (!onlyWhiteSpace(d.dec.Buffered()) || !onlyWhiteSpace(&d.in))
	d.dec = nil // it may still hold what followed the value
	switch {
	case err != nil:
		return fmt.Errorf("not the expected JSON: %w", err)
	case rest:
		return errors.New("more text follows the JSON value")
	}
	return nil
}

// onlyWhiteSpace reports whether r has only the white space of JSON.
func onlyWhiteSpace(r io.Reader) bool {
	var buf [64]byte
	for {
		n, err := r.Read(buf[:])
		if len(bytes.Trim(buf[:n], " \t\r\n")) > 0 {
			return false
		}
		if err != nil {
			return errors.Is(err, io.EOF)
		}
	}
}
