package corpus

import (
	"encoding/base64"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"
)

// Writer generates messages. Use it from one goroutine.
type Writer struct {
	mail  Mail
	words []string
	out   []byte
	rng   *rand.Rand
}

// vocabulary is the number of words in the messages.
const vocabulary = 5_000

// NewWriter returns a writer of m's messages.
func NewWriter(m Mail) *Writer {
	return &Writer{mail: m, words: generateWords(m.Seed)}
}

// generateWords generates a vocabulary. The most frequent words come first and are
// short, as in any language.
func generateWords(seed uint64) []string {
	r := rand.New(rand.NewPCG(seed, 0x776f726473))
	onset := strings.Fields("b c d f g h k l m n p r s t v w st tr pl ch sh th br gr")
	vowel := strings.Fields("a e i o u ai ea ou ie oo")
	coda := append(strings.Fields("n r s t l m d ng st ck nt"), "", "", "")
	seen, out := map[string]bool{}, make([]string, 0, vocabulary)
	for len(out) < vocabulary {
		var b strings.Builder
		for range 1 + r.IntN(1+min(3, len(out)/40)) {
			b.WriteString(onset[r.IntN(len(onset))])
			b.WriteString(vowel[r.IntN(len(vowel))])
			b.WriteString(coda[r.IntN(len(coda))])
		}
		if w := b.String(); !seen[w] {
			seen[w] = true
			out = append(out, w)
		}
	}
	return out
}

// drawWord draws a word by Zipf's law: the n-th with a probability proportional to
// 1/n.
func (w *Writer) drawWord() string {
	return w.words[int(math.Pow(float64(len(w.words)), w.rng.Float64()))-1]
}

// Message returns message i, of exactly m.Size(i) bytes. It is valid until the
// next call.
func (w *Writer) Message(i int) []byte {
	n := w.mail.Size(i)
	w.rng = rand.New(rand.NewPCG(w.mail.Seed, uint64(i)))
	w.out = w.out[:0]
	boundary := ""
	if n > letterMax {
		boundary = fmt.Sprintf("=_%016x", w.rng.Uint64())
	}
	w.writeHeader(i, boundary)
	if boundary == "" {
		w.writeBody(n)
		return w.exactly(n)
	}
	w.appendText("--%s\nContent-Type: text/plain; charset=UTF-8\n\n", boundary)
	w.writeBody(min(n, len(w.out)+1500))
	// One attachment in six does not compress, like pictures and archives.
	if w.rng.IntN(6) == 0 {
		w.appendText("\n--%s\nContent-Type: image/jpeg; name=\"%s.jpg\"\nContent-Transfer-Encoding: base64\n\n", boundary,
			w.drawWord())
		w.writeBinary(n)
	} else {
		w.appendText("\n--%s\nContent-Type: text/html; charset=UTF-8; name=\"%s.html\"\n\n", boundary, w.drawWord())
		w.writeHTML(n)
	}
	return w.exactly(n)
}

func (w *Writer) appendText(format string, args ...any) { w.out = fmt.Appendf(w.out, format, args...) }

// exactly cuts or fills the message to n bytes and ends its last line.
func (w *Writer) exactly(n int) []byte {
	for len(w.out) < n {
		w.out = append(w.out, '\n')
	}
	w.out = w.out[:n]
	w.out[n-1] = '\n'
	return w.out
}

// epoch is the date of the first message.
var epoch = time.Date(2008, 3, 1, 8, 0, 0, 0, time.UTC)

func (w *Writer) writeHeader(i int, boundary string) {
	at := epoch.Add(time.Duration(i) * 13 * time.Minute)
	date := at.Format("Mon, 2 Jan 2006 15:04:05 -0700")
	from, to := w.drawWord()+"."+w.drawWord(), w.words[w.rng.IntN(6)]
	domain := w.words[w.rng.IntN(200)] + ".example"
	w.appendText("Return-Path: <%s@%s>\n", from, domain)
	if short := w.mail.Size(i) < 1000; !short && w.rng.IntN(3) > 0 {
		w.appendText("Received: from mail.%s (mail.%s [198.51.100.%d])\n\tby mx.example.org (Postfix) with ESMTPS id "+
			"%X\n\tfor <%s@example.org>; %s\n",
			domain, domain, w.rng.IntN(254)+1, w.rng.Uint64()&0xfffffffffff, to, date)
	}
	w.appendText("From: %s <%s@%s>\nTo: %s@example.org\nSubject: %s %s %s\nDate: %s\nMessage-ID: "+
		"<%d.%x@%s>\nMIME-Version: 1.0\n",
		from, from, domain, to, w.drawWord(), w.drawWord(), w.drawWord(), date, at.Unix(), w.rng.Uint32(), domain)
	if boundary != "" {
		w.appendText("Content-Type: multipart/mixed; boundary=\"%s\"\n\n", boundary)
		return
	}
	if w.mail.Size(i) > 700 {
		w.appendText("Content-Type: text/plain; charset=UTF-8\nContent-Transfer-Encoding: 8bit\n"+
			"X-Mailer: Example Mail 3.%d\n", w.rng.IntN(4))
	}
	w.out = append(w.out, '\n')
}

// writeBody writes text up to n bytes: lines of words, and quotes of earlier text.
func (w *Writer) writeBody(n int) {
	said := len(w.out)
	for len(w.out) < n {
		if quote := len(w.out) - said; quote > 300 && w.rng.IntN(24) == 0 {
			w.appendText("\n> ")
			from := said + w.rng.IntN(quote/2)
			for _, c := range w.out[from : from+min(quote/2, 400)] {
				if w.out = append(w.out, c); c == '\n' {
					w.out = append(w.out, '>', ' ')
				}
			}
			w.appendText("\n\n")
		}
		w.sentence()
		if w.rng.IntN(5) == 0 {
			w.out = append(w.out, '\n', '\n')
		}
	}
}

// sentence writes some words, with a line break about every 70 bytes.
func (w *Writer) sentence() {
	line := 0
	for k := range 5 + w.rng.IntN(14) {
		word := w.drawWord()
		if k == 0 {
			w.out = append(w.out, word[0]-'a'+'A')
			word = word[1:]
		}
		w.out = append(w.out, word...)
		if line += len(word) + 1; line > 70 {
			w.out, line = append(w.out, '\n'), 0
		} else {
			w.out = append(w.out, ' ')
		}
	}
	w.out[len(w.out)-1] = '.'
	w.out = append(w.out, " \n"[w.rng.IntN(2)])
}

// writeHTML writes a page up to n bytes, with more markup than text, as mail
// programs do.
func (w *Writer) writeHTML(n int) {
	for len(w.out) < n {
		w.appendText("<tr>\n<td style=\"margin:0;font-family:Arial,sans-serif;font-size:12px\"><a "+
			"href=\"http://www.%s.example/%x\">%s</a></td>\n<td style=\"margin:0;font-family:Arial,sans-serif;font-size:12px\">",
			w.words[w.rng.IntN(200)], w.rng.Uint32(), w.drawWord())
		w.sentence()
		w.appendText("</td>\n</tr>\n")
	}
}

// writeBinary writes base64 of random bytes, which do not compress, up to n bytes.
func (w *Writer) writeBinary(n int) {
	var raw [57]byte
	for len(w.out) < n {
		for k := range raw {
			raw[k] = byte(w.rng.Uint32())
		}
		w.out = base64.StdEncoding.AppendEncode(w.out, raw[:])
		w.out = append(w.out, '\n')
	}
}
