package responder

import (
	"bytes"
	"fmt"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"bakeoff/measure/workload/http/frame"
)

// scripted is a connection with what a client sends.
type scripted struct {
	*bytes.Reader
	bytes.Buffer
}

func (c *scripted) Read(b []byte) (int, error)  { return c.Reader.Read(b) }
func (c *scripted) Write(b []byte) (int, error) { return c.Buffer.Write(b) }

// conversation is what a client sends: preface, settings and more.
func conversation(write func(*http2.Framer)) []byte {
	b := bytes.NewBufferString(http2.ClientPreface)
	f := http2.NewFramer(b, nil)
	f.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 128})
	write(f)
	return b.Bytes()
}

// get is the header of a request.
func get(stream uint32) http2.HeadersFrameParam {
	var b bytes.Buffer
	hpack.NewEncoder(&b).WriteField(hpack.HeaderField{Name: ":method", Value: "GET"})
	return http2.HeadersFrameParam{StreamID: stream, BlockFragment: b.Bytes(), EndStream: true, EndHeaders: true}
}

// The responder acknowledges settings and pings, answers each stream under its own
// identifier, and ignores what it need not know.
func TestResponderFrames(t *testing.T) {
	c := &scripted{Reader: bytes.NewReader(conversation(func(f *http2.Framer) {
		f.WriteSettingsAck()
		f.WritePing(false, [8]byte{1, 2, 3, 4, 5, 6, 7, 8})
		f.WriteHeaders(get(1))
		f.WriteWindowUpdate(0, 1)
		f.WriteHeaders(get(3))
	}))}
	answerFrames(c, fixedFrames([]byte("hello")))
	var got []string
	for answers := http2.NewFramer(nil, &c.Buffer); ; {
		f, err := answers.ReadFrame()
		if err != nil {
			break
		}
		h := f.Header()
		got = append(got, fmt.Sprintf("%d/%d on %d", h.Type, h.Flags, h.StreamID))
	}
	want := "[4/0 on 0 4/1 on 0 6/1 on 0 1/4 on 1 0/1 on 1 1/4 on 3 0/1 on 3]"
	if fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
}

func FuzzAnswerFrames(f *testing.F) {
	f.Add(conversation(func(f *http2.Framer) { f.WriteHeaders(get(1)) }))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	response := fixedFrames([]byte("hello"))
	f.Fuzz(func(t *testing.T, sent []byte) {
		c := &scripted{Reader: bytes.NewReader(sent)}
		answerFrames(c, response)
		if n := c.Buffer.Len(); n > frame.HeadLength+len(sent)*(len(response)+frame.HeadLength) {
			t.Errorf("%d bytes answer %d", n, len(sent))
		}
	})
}
