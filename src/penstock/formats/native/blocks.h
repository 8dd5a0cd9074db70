/* Memory of columns and of encoded values, which is used again.
 *
 * New memory from the system costs a page fault and a page of zeros for every 4 KiB, which was a sixth of the time of
 * a task that reads and writes JSON. So large blocks that are free are kept, at most 16 MiB in each compiled module.
 * A block has its capacity before its first byte. No GIL: several threads may take and free blocks at once.
 */
#ifndef PENSTOCK_FORMATS_BLOCKS_H
#define PENSTOCK_FORMATS_BLOCKS_H

#include <stdint.h>

/* Makes a block of at least so many bytes, or a larger one of a block (NULL: none) with the same content. What is
 * new has any content. Returns NULL without memory, and then the old block stays. */
void *block_resize(void *block, int64_t bytes);
void block_free(void *block);
/* Returns the size of the free blocks that are kept. */
int64_t blocks_kept_bytes(void);

#endif
