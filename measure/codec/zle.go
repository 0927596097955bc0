package codec

// ZLE shortens runs of zeros: a byte n below 64 is followed by n+1 literal
// bytes; a byte n from 64 on stands for n-63 zeros.
//
// Source: zle.c of OpenZFS.
type ZLE struct{}

const zleLevel = 64

// Encode compresses.
func (ZLE) Encode(dst, src []byte, limit int) ([]byte, bool) {
	base := len(dst)
	for i := 0; i < len(src); {
		if len(dst)-base >= limit-1 {
			return dst, false
		}
		first, head := i, len(dst)
		dst = append(dst, 0)
		if src[i] == 0 {
			last := min(i+256-zleLevel, len(src))
			for i < last && src[i] == 0 {
				i++
			}
			dst[head] = byte(i - first - 1 + zleLevel)
			continue
		}
		if limit-(len(dst)-base) < zleLevel {
			return dst, false
		}
		last := i + zleLevel
		for i < min(last, len(src)-1) && (src[i] != 0 || src[i+1] != 0) {
			dst = append(dst, src[i])
			i++
		}
		if src[i] != 0 && i < last {
			dst = append(dst, src[i])
			i++
		}
		dst[head] = byte(i - first - 1)
	}
	return dst, true
}
