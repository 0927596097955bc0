/* libc does work that is mostly the C library's, and prints a checksum that every
   correct library gives. See build.sh. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned long seed = 1;

static unsigned next(void) {
	seed = seed * 6364136223846793005UL + 1442695040888963407UL;
	return seed >> 33;
}

/* allocate keeps 1000 blocks of different sizes, and replaces one n times. */
static unsigned long allocate(long n) {
	static char *blocks[1000];
	unsigned long sum = 0;
	while (n-- > 0) {
		unsigned i = next() % 1000, size = 16 + next() % 2000;
		free(blocks[i]);
		blocks[i] = malloc(size);
		if (blocks[i] == NULL)
			exit(1);
		blocks[i][0] = blocks[i][size - 1] = (char)size;
		sum += size;
	}
	return sum;
}

/* format writes n lines of numbers as text. */
static unsigned long format(long n) {
	char line[128];
	unsigned long sum = 0;
	while (n-- > 0) {
		unsigned v = next();
		sum += snprintf(line, sizeof line, "%u %08x %.6f %s", v, v, v / 1024.0, "text") + line[0];
	}
	return sum;
}

static int compare(const void *a, const void *b) {
	unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;
	return (x > y) - (x < y);
}

/* sort sorts n numbers. */
static unsigned long sort(long n) {
	unsigned *v = malloc(n * sizeof *v);
	unsigned long sum = 0;
	if (v == NULL)
		exit(1);
	for (long i = 0; i < n; i++)
		v[i] = next();
	qsort(v, n, sizeof *v, compare);
	for (long i = 0; i < n; i += 1000)
		sum += v[i];
	return sum;
}

/* search looks n times for a word that is not in a text. */
static unsigned long search(long n) {
	static char text[64 << 10];
	unsigned long found = 0;
	for (size_t i = 0; i < sizeof text - 1; i++)
		text[i] = 'a' + next() % 25;
	while (n-- > 0) {
		text[next() % (sizeof text - 1)] = 'b';
		found += strstr(text, "needlz") != NULL;
		found += strlen(text);
	}
	return found;
}

int main(int argc, char **argv) {
	long n = argc == 3 ? atol(argv[2]) : 0;
	unsigned long sum;
	if (n > 0 && strcmp(argv[1], "allocate") == 0)
		sum = allocate(n);
	else if (n > 0 && strcmp(argv[1], "format") == 0)
		sum = format(n);
	else if (n > 0 && strcmp(argv[1], "sort") == 0)
		sum = sort(n);
	else if (n > 0 && strcmp(argv[1], "search") == 0)
		sum = search(n);
	else {
		fprintf(stderr, "usage: libc allocate|format|sort|search COUNT\n");
		return 2;
	}
	printf("%lu\n", sum);
	return 0;
}
