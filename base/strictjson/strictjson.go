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
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return fmt.Errorf("not the expected JSON: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more text follows the JSON value")
	}
	return nil
}
