"""AvroPlan, shared by the decoder and the encoder; see avro/_plan.py."""

from libc.stdint cimport int32_t, uint8_t


cdef extern from "avro.h":
    ctypedef struct AvroNode:
        pass

    ctypedef struct AvroPlan:
        const AvroNode *nodes
        const int32_t *children
        const uint8_t *symbols
        const int32_t *symbol_offsets


cdef inline void set_plan(AvroPlan *plan, object made):
    """Point a native plan into a plan of avro/_plan.py. The caller keeps that plan alive."""
    plan.nodes = <const AvroNode *><const char *>(<bytes>made.nodes)
    plan.children = <const int32_t *><const char *>(<bytes>made.children)
    plan.symbols = <const uint8_t *><const char *>(<bytes>made.symbols)
    plan.symbol_offsets = <const int32_t *><const char *>(<bytes>made.symbol_offsets)
